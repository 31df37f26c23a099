#include "models/albert/config.h"

#include <utility>

namespace lshformer {
namespace {

constexpr int64_t kMostEmbedding = int64_t{1} << 16, kMostGroups = 1024, kMostVisits = 4096;

using M = ModelConfig;
using A = AlbertConfig;

constexpr int64_t M::*kInnerGroupNum = &M::inner_group_num;  // a member of the base, as one of the whole

Option<A> ParameterSharing() {
  Option<A> option = Names("parameter_sharing", &A::parameter_sharing, {"all", "attention", "ffn", "none"},
                           "what layers share, of ours: `all`, `attention`, `ffn` or `none`; absent: as "
                           "`num_hidden_groups` says");
  option.write = [](const A& from) { return from.parameter_sharing.empty() ? Json() : Json(from.parameter_sharing); };
  return std::move(option).OrNone().NullIsAbsent();
}

// Written where it says something: with E = H and without the map.
Option<A> EmbeddingHiddenMapping() {
  Option<A> option =
      Boolean("embedding_hidden_mapping", &A::embedding_hidden_mapping,
              "of ours: false leaves out the map from embeddings to layers, as ALBERT's own code does where "
              "`embedding_size` is `hidden_size`; HF always has it");
  option.write = [](const A& from) { return from.embedding_hidden_mapping ? Json() : Json(false); };
  return std::move(option).NullIsAbsent();
}

Option<A> QuestionAnsweringHead() {
  Option<A> option = Names("question_answering_head", &A::question_answering_head, {"span", "conditional"},
                           "of ours: `span`, two logits a token, or `conditional`, the head of ALBERT's own code for "
                           "SQuAD 2.0, which HF does not have");
  option.write = [](const A& from) {
    return from.question_answering_head == AnswerHead::kSpan ? Json() : Json("conditional");
  };
  return std::move(option).NullIsAbsent();
}

Option<M> NumHiddenGroups() {
  Option<M> option = OwnOption(Integer("num_hidden_groups", &A::num_hidden_groups, 1, kMostGroups,
                                       "groups of layers, each with weights of its own; layer i of L has group i·G/L"));
  option.write = [](const M& from) { return Json(GroupCount(from)); };
  return option;
}

double ParameterCount(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double width = static_cast<double>(config.embedding_width());
  const double rows = static_cast<double>(config.vocab_size + config.max_position_embeddings + config.type_vocab_size);
  const double layers = static_cast<double>(GroupCount(config) * config.inner_group_num);
  return rows * width + 2 * width * hidden + layers * (4 * hidden * hidden + 2 * hidden * inner) + hidden * hidden +
         static_cast<double>(config.num_labels) * hidden +
         (config.own<A>().question_answering_head == AnswerHead::kConditional ? 4 * hidden * hidden : 0);
}

}  // namespace

AlbertGroups GroupsOf(const ModelConfig& config, int64_t layer) {
  const A& own = config.own<A>();
  const std::string& sharing = own.parameter_sharing;
  if (sharing.empty()) {
    const int64_t group = layer * own.num_hidden_groups / config.num_hidden_layers;
    return {group, group};
  }
  return {sharing == "all" || sharing == "attention" ? 0 : layer, sharing == "all" || sharing == "ffn" ? 0 : layer};
}

int64_t GroupCount(const ModelConfig& config) {
  const A& own = config.own<A>();
  if (own.parameter_sharing.empty()) return own.num_hidden_groups;
  return own.parameter_sharing == "all" ? 1 : config.num_hidden_layers;
}

bool HasEmbeddingMap(const ModelConfig& config) { return config.own<A>().embedding_hidden_mapping; }

std::vector<Option<ModelConfig>> AlbertOptions() {
  std::vector<Option<M>> options{
      Integer("embedding_size", &M::embedding_size, 1, kMostEmbedding, "width of the embeddings and of the decoder"),
      NumHiddenGroups(),
      Integer("inner_group_num", kInnerGroupNum, 1, kMostGroups, "layers in a row that a group consists of"),
      OwnOption(ParameterSharing()),
      OwnOption(EmbeddingHiddenMapping()),
      OwnOption(Number("classifier_dropout_prob", &A::classifier_dropout_prob, {.low = 0, .high = 1, .high_open = true},
                       "before the classifier and the heads of sentence pairs and of questions without answer")),
      OwnOption(QuestionAnsweringHead())};
  for (Option<M>& option : TokenOptions()) options.push_back(std::move(option));
  return options;
}

void SetAlbertDefaults(ModelConfig& config) {
  config.vocab_size = 30000;
  config.embedding_size = 128;
  config.hidden_size = 4096;
  config.num_attention_heads = 64;
  config.intermediate_size = 16384;
  config.hidden_act = Activation::kGeluNew;
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
}

void CheckAlbertConfig(const ModelConfig& config, std::string_view where) {
  RefuseOtherVariants(config.other, where);
  RefuseOtherPositions(config.other, where);
  const A& own = config.own<A>();
  if (!own.parameter_sharing.empty() && own.num_hidden_groups != 1 && own.num_hidden_groups != GroupCount(config))
    Fail("{}: \"num_hidden_groups\": expected {} with \"parameter_sharing\" \"{}\" and {} layers, got {}", where,
         GroupCount(config), own.parameter_sharing, config.num_hidden_layers, own.num_hidden_groups);
  if (own.parameter_sharing.empty() && own.num_hidden_groups > config.num_hidden_layers)
    Fail("{}: \"num_hidden_groups\" {} is more than \"num_hidden_layers\" {}: some groups would have no layer", where,
         own.num_hidden_groups, config.num_hidden_layers);
  if (config.visits() > kMostVisits)
    Fail("{}: \"num_hidden_layers\" {} times \"inner_group_num\" {} is more than {}", where, config.num_hidden_layers,
         config.inner_group_num, kMostVisits);
  if (!own.embedding_hidden_mapping && config.embedding_size != config.hidden_size)
    Fail("{}: \"embedding_hidden_mapping\" false needs \"embedding_size\" {} to be \"hidden_size\" {}", where,
         config.embedding_size, config.hidden_size);
  if (config.attended_padding > 0 && own.question_answering_head == AnswerHead::kConditional)
    Fail("{}: \"attended_padding\": \"question_answering_head\" \"conditional\" would find answers in the padding",
         where);
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
