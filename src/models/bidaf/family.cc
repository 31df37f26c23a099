#include "models/bidaf/family.h"

#include "models/bidaf/bidaf.h"
#include "models/bidaf/config.h"
#include "models/word_batch.h"
#include "models/word_options.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kQuestionAnswering, "BidafForQuestionAnswering"}};

ModelPtr Build(ModelConfig config, Task task, const ParameterMap& parameters) {
  return std::make_shared<BidafModel>(std::move(config), task, parameters);
}

}  // namespace

constexpr Family kBidafFamily{.model_type = "bidaf",
                              .options = BidafOptions,
                              .set_defaults = SetBidafDefaults,
                              .check = CheckBidafConfig,
                              .heads = kHeads,
                              .streams = kWordStreams,
                              .word_table = kWordTable,
                              .take_words = TakeWords<BidafConfig>,
                              .first_parameter = "embeddings.highway.0.gate.bias",
                              .parameters = BidafParameters,
                              .build = Build};

}  // namespace lshformer
