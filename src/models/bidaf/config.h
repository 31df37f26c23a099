// The keys of config.json that are BiDAF's own. The defaults are CS224N's model with the paper's character CNN:
//
//   paper (Seo et al. 2017)  no embedding_map, "maximum"; "modelling" as its text has it, "attended_start" as its code
//   CS224N's baseline        embedding_map, "double_softmax", "modelling", second_biases, character_filters 0
//
// Of the two ways from question to context the double softmax gives every word of the context its own mixture of the
// others, the maximum one and the same row to all; and the end pointer over the modelled states alone has a million
// parameters less than that of the authors' code.
#pragma once
#include <string_view>
#include <vector>

#include "models/config.h"
#include "nn/word_config.h"

namespace lshformer {

// How the question attends to the context: as ops/context_query_attention.h has it, which needs libtorch.
enum class QuestionToContext { kDoubleSoftmax, kMaximum };

// What the LSTM of the end pointer reads: M, or [G; M; m̃; M∘m̃] with m̃ the mean of M under the start's probabilities.
enum class EndPointer { kModelling, kAttendedStart };

struct BidafConfig : WordConfig {
  bool embedding_map = true;  // from word and character vector to hidden_size, without bias
  QuestionToContext question_to_context = QuestionToContext::kDoubleSoftmax;
  EndPointer end_pointer = EndPointer::kModelling;
  bool second_biases = false;  // of LSTMs and outputs, as torch's LSTM and CS224N's code have them
};

std::vector<Option<ModelConfig>> BidafOptions();
void SetBidafDefaults(ModelConfig& config);
void CheckBidafConfig(const ModelConfig& config, std::string_view where);

}  // namespace lshformer
