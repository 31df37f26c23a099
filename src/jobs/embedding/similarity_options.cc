// The options of training embeddings, which need no model.
#include "base/error.h"
#include "jobs/train.h"

namespace lshformer {
namespace {

// Why an option of the losses has no meaning: with a teacher, or `otherwise`.
std::string BesideATeacher(const SimilarityOptions& options, std::string otherwise) {
  return options.teacher_name_or_path.empty()
             ? std::move(otherwise)
             : fmt::format("is of losses, which {} is instead of", OptionName{"teacher_name_or_path"});
}

}  // namespace

const OptionTable<SimilarityOptions>& SimilarityTable() {
  using S = SimilarityOptions;
  static const OptionTable<S> table{
      {Names("loss", &S::loss, {"cosine", "cosent", "mnrl", "mnrl_symmetric", "triplet", "listwise"},
             "what brings vectors together; default: cosent where the data has scores, else mnrl (in-batch negatives); "
             "listwise: text-classification as a reranker, on rows {\"query\", \"passages\", \"labels\"}")
           .OrNone(),
       Number("scale", &S::scale, {.low = 0, .low_open = true}, "cosent, mnrl: what cosines are multiplied with")
           .MeaninglessIf([](const S& options) {
             const bool none = options.loss == "cosine" || options.loss == "triplet";
             return BesideATeacher(options,
                                   none ? fmt::format("is not for {} {}", OptionName{"loss"}, options.loss) : "");
           }),
       Number("triplet_margin", &S::triplet_margin, {.low = 0}, "triplet: how much farther a negative is to be")
           .MeaninglessIf([](const S& options) {
             const bool none = options.loss != "triplet";
             return BesideATeacher(options, none ? fmt::format("is for {} triplet", OptionName{"loss"}) : "");
           }),
       Text("matryoshka_dims", &S::matryoshka_dims,
            "the loss also of vectors that are cut: its sum over these lengths, \"384,128,64\"")
           .Syntax("N,…")
           .MeaninglessIf([](const S& options) { return BesideATeacher(options, ""); }),
       Integer("gradient_cache_chunk", &S::gradient_cache_chunk, 0, INT32_MAX,
               "a batch's vectors are computed so many texts at a time, in the backward once more: memory of so many, "
               "the gradient of all; 0: all at once"),
       Text("prompts", &S::prompts, "what stands before the texts of a column, '{\"anchor\": \"query: \"}'")
           .Syntax("JSON"),
       Names("pooling", &S::pooling, {"cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"},
             "how states become a vector; default: what a Sentence-Transformers folder says, else mean")
           .OrNone(),
       Path("teacher_name_or_path", &S::teacher_name_or_path, "DIR",
            "a model of any vocabulary whose vectors are learned, in place of a loss")
           .MeaninglessIf([](const S& options) {
             return options.loss.empty() ? "" : fmt::format("is instead of {}", OptionName{"loss"});
           })},
      nullptr,
      {},
      "Embeddings (sentence-similarity)"};
  return table;
}

}  // namespace lshformer
