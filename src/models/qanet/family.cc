#include "models/qanet/family.h"

#include <algorithm>

#include "models/qanet/config.h"
#include "models/qanet/qanet.h"
#include "models/word_batch.h"
#include "models/word_options.h"
#include "nn/word_embeddings.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kQuestionAnswering, "QanetForQuestionAnswering"}};

ModelPtr Build(ModelConfig config, Task task, const ParameterMap& parameters) {
  return std::make_shared<QanetModel>(std::move(config), task, parameters);
}

// Reversible blocks have LayerNorms of other names than ordinary ones.
std::string ExplainMissing(const std::map<std::string, std::string>& by_name, const ModelConfig& config) {
  const bool reversible = by_name.contains("model_encoder.0.attention.input_norm.weight");
  if (!reversible && !by_name.contains("model_encoder.0.attention.norm.weight"))
    return ": the file has no tensor of a QANet; is \"model_type\" another?";
  if (reversible == config.reversible) return "";
  return reversible ? ": the weights are those of a reversible model, which config.json does not say"
                    : ": config.json says \"reversible\", the weights are those of an ordinary model";
}

}  // namespace

constexpr Family kQanetFamily{.model_type = "qanet",
                              .options = QanetOptions,
                              .encoder_layers = true,
                              .without_encoder_keys = kNotOfQanet,
                              .set_defaults = SetQanetDefaults,
                              .check = CheckQanetConfig,
                              .heads = kHeads,
                              .streams = kWordStreams,
                              .word_table = kWordTable,
                              .take_words = TakeWords<QanetConfig>,
                              .layer_prefix = "model_encoder.",
                              .layers = [](const ModelConfig& config) { return config.num_hidden_layers; },
                              .first_parameter = "embeddings.highway.0.transform.bias",
                              .parameters = QanetParameters,
                              .build = Build,
                              .explain_missing = ExplainMissing};

}  // namespace lshformer
