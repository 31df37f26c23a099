#include "models/bidaf/config.h"

#include <utility>

#include "models/word_options.h"

namespace lshformer {

std::vector<Option<ModelConfig>> BidafOptions() {
  using B = BidafConfig;
  std::vector<Option<ModelConfig>> options = WordModelOptions<B>();
  options.push_back(OwnOption(Boolean("embedding_map", &B::embedding_map,
                                      "a map without bias from word and character vector to `hidden_size`, before the "
                                      "highway layers")));
  options.push_back(OwnOption(
      Names("question_to_context", &B::question_to_context, {"double_softmax", "maximum"},
            "`double_softmax`, CS224N's, or `maximum`, the BiDAF paper's one row for all words of the context")));
  options.push_back(OwnOption(
      Names("end_pointer", &B::end_pointer, {"modelling", "attended_start"},
            "what the LSTM of the end reads: `modelling`, the modelled states, or `attended_start`, as in the "
            "code of BiDAF's authors also the attended ones and the likely start")));
  options.push_back(OwnOption(Boolean("second_biases", &B::second_biases,
                                      "LSTMs and outputs have two biases, as in torch's LSTM and CS224N's code; the "
                                      "second adds nothing that the first cannot")));
  return options;
}

void SetBidafDefaults(ModelConfig& config) {
  SetWordModelDefaults(config);
  config.hidden_size = 100;
  config.hidden_dropout_prob = 0.2;
}

void CheckBidafConfig(const ModelConfig& config, std::string_view where) {
  CheckWordConfig(config, where);
  const BidafConfig& own = config.own<BidafConfig>();
  const auto d = static_cast<double>(config.hidden_size);
  const auto both = static_cast<double>(config.embedding_size + own.character_filters);
  const double word = own.embedding_map ? d : both, map = own.embedding_map ? both * d : 0;
  const double inputs = word + 8 * d + 2 * d + (own.end_pointer == EndPointer::kModelling ? 2 : 14) * d;
  CheckParameterCount(WordParameterCount(config, own) + map + 4 * word * word + 8 * d * (inputs + 4 * d), where);
}

}  // namespace lshformer
