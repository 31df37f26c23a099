#include "models/xlm-roberta/family.h"

#include "models/roberta/config.h"
#include "models/roberta/roberta.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kEncoder, "XLMRobertaModel"},
                           {Task::kMaskedLm, "XLMRobertaForMaskedLM"},
                           {Task::kSequenceClassification, "XLMRobertaForSequenceClassification"},
                           {Task::kMultipleChoice, "XLMRobertaForMultipleChoice"},
                           {Task::kQuestionAnswering, "XLMRobertaForQuestionAnswering"}};

}  // namespace

constexpr Family kXlmRobertaFamily{.model_type = "xlm-roberta",
                                   .options = RobertaOptions,
                                   .encoder_layers = true,
                                   .encoder_keys = kRobertaKeys,
                                   .set_defaults = SetXlmRobertaDefaults,
                                   .complete = CompleteRobertaConfig,
                                   .check = CheckRobertaConfig,
                                   .heads = kHeads,
                                   .streams = kRobertaStreams,
                                   .weight_names = {.prefix = "roberta.",
                                                    .bare_architecture = "XLMRobertaModel",
                                                    .parts = kRobertaParts,
                                                    .aliases = kRobertaAliases,
                                                    .buffer = "embeddings.position_ids"},
                                   .layer_prefix = "roberta.encoder.layer.",
                                   .layers = [](const ModelConfig& config) { return config.num_hidden_layers; },
                                   .first_parameter = "roberta.embeddings.LayerNorm.weight",
                                   .parameters = EncoderParameters<RobertaForm>,
                                   .build = BuildEncoder<RobertaForm>,
                                   .explain_missing = ExplainMissingRoberta};

}  // namespace lshformer
