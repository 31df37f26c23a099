// dropout(LayerNorm(word + position + token type)), the first layer of BERT-like encoders.
#pragma once
#include <string>
#include <vector>

#include "data/batch.h"
#include "nn/forward_context.h"
#include "nn/layer_norm.h"
#include "nn/parameters.h"

namespace lshformer {

struct EmbeddingSizes {
  int64_t words, positions, types;  // vocab_size, max_position_embeddings, type_vocab_size
  int64_t width;
  const char* width_key = "hidden_size";  // of config.json
};

class Embeddings {
 public:
  // "<prefix>.word_embeddings.weight", …, "<prefix>.LayerNorm.bias", in HF's order.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const EmbeddingSizes& sizes);
  // padding_word: this row of the word table gets no gradient.
  Embeddings(const ParameterMap& parameters, const std::string& prefix, double eps, double dropout,
             int64_t padding_word);
  torch::Tensor operator()(const TokenStream& tokens, const ForwardContext& context) const;  // [T, width]
  const torch::Tensor& words() const { return words_; }

 private:
  torch::Tensor words_, positions_, types_;
  LayerNorm norm_;
  double dropout_;
  int32_t padding_word_;
};

}  // namespace lshformer
