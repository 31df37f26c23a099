#include "models/toy_family/bag_of_words.h"

#include <fmt/format.h>

#include "base/error.h"
#include "models/model.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kSequenceClassification, "BagOfWordsForSequenceClassification"}};
constexpr std::string_view kStreams[] = {"words", "characters"};

void SetDefaults(ModelConfig& config) { config.vocab_size = 100, config.hidden_size = 8; }

std::vector<Option<ModelConfig>> Options() {
  using B = BagOfWordsConfig;
  return {OwnOption(Integer("character_vocab_size", &B::character_vocab_size, 1, 1000, "ids of the second stream")),
          OwnOption(Number("character_weight", &B::character_weight, {}, "of the second stream's mean")),
          OwnOption(Boolean("fixed_words", &B::fixed_words, "the words' vectors are not trained"))};
}

std::vector<ParameterSpec> Parameters(const ModelConfig& config, Task) {
  const BagOfWordsConfig& own = config.own<BagOfWordsConfig>();
  const int64_t width = config.hidden_size, characters = own.character_vocab_size;
  std::vector<ParameterSpec> specs{
      {"words",
       {config.vocab_size, width},
       Initial::kNormal,
       "embeddings",
       "vocab_size",
       {.embedding = true, .trained = !own.fixed_words}},
      {"characters", {characters, width}, Initial::kNormal, "embeddings", "character_vocab_size", {.embedding = true}}};
  AppendLinear(specs, "classifier", config.num_labels, width, "head", "hidden_size");
  return specs;
}

// The mean row of each sequence: [sequences, width].
torch::Tensor Means(const torch::Tensor& table, const TokenStream& stream) {
  std::vector<torch::Tensor> means;
  for (int b = 0; b < stream.sequences(); ++b) {
    const std::vector<int64_t> ids(stream.ids.begin() + stream.cu_seqlens[b],
                                   stream.ids.begin() + stream.cu_seqlens[b + 1]);
    means.push_back(table.index_select(0, torch::tensor(ids, torch::kInt64)).mean(0));
  }
  return torch::stack(means);
}

class BagOfWords final : public Model {
 public:
  BagOfWords(ModelConfig config, Task task, const ParameterMap& parameters)
      : Model(std::move(config), task),
        words_(parameters.Get("words")),
        characters_(parameters.Get("characters")),
        classifier_(parameters.LinearOf("classifier")) {
    for (const ParameterSpec& spec : Parameters(config_, task))
      named_.emplace_back(spec.name, parameters.Get(spec.name));
  }

  ModelOutput Run(const PackedBatch& batch, const ForwardOptions&) override {
    CheckStreams(batch, FamilyOf(config_));
    ModelOutput output;
    const double weight = config_.own<BagOfWordsConfig>().character_weight;
    output.pooler_output =
        Means(words_, batch.tokens) + weight * Means(characters_, batch.further_streams[0]);  // [B, H]
    output.logits = classifier_(output.pooler_output);                                        // [B, labels]
    if (batch.labels.classes.empty()) return output;
    const std::vector<int64_t> labels(batch.labels.classes.begin(), batch.labels.classes.end());
    output.loss = torch::cross_entropy_loss(output.logits, torch::tensor(labels, torch::kInt64));
    output.terms = {output.loss};
    return output;
  }
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return named_; }

 private:
  torch::Tensor words_, characters_;
  Linear classifier_;
  std::vector<std::pair<std::string, torch::Tensor>> named_;
};

ModelPtr Build(ModelConfig config, Task task, const ParameterMap& parameters) {
  return std::make_shared<BagOfWords>(std::move(config), task, parameters);
}

}  // namespace

constexpr Family kBagOfWordsFamily{.model_type = "bag_of_words",
                                   .options = Options,
                                   .set_defaults = SetDefaults,
                                   .heads = kHeads,
                                   .streams = kStreams,
                                   .parameters = Parameters,
                                   .build = Build};

}  // namespace lshformer
