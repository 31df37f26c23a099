// The keys of config.json that are QANet's own, beside those of words (nn/word_config.h) and of encoder layers
// (nn/encoder_config.h) that mean the same: num_hidden_layers are the blocks of the model encoder.
#pragma once
#include <string_view>
#include <vector>

#include "models/config.h"
#include "nn/word_config.h"

namespace lshformer {

struct QanetConfig : WordConfig {
  int64_t embedding_encoder_convolutions = 4, embedding_encoder_kernel_size = 7;
  int64_t model_encoder_convolutions = 2, model_encoder_kernel_size = 5;
  double layer_dropout = 0.1;
};

// Keys of encoder layers that a convolution block has no use for: its feed-forward is as wide as all else and has relu.
inline constexpr std::string_view kNotOfQanet[] = {"intermediate_size", "chunk_size_feed_forward", "attention_residual",
                                                   "hidden_act"};

std::vector<Option<ModelConfig>> QanetOptions();
void SetQanetDefaults(ModelConfig& config);  // the paper's, with characters of 64 numbers as in the public code
void CheckQanetConfig(const ModelConfig& config, std::string_view where);

}  // namespace lshformer
