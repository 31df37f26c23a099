// dropout(LayerNorm(word + position + token type)), the first layer of BERT-like encoders, some without a table of
// positions or of types.
#pragma once
#include <string>
#include <vector>

#include "data/batch.h"
#include "nn/forward_context.h"
#include "nn/layer_norm.h"
#include "nn/parameters.h"

namespace lshformer {

// Which row of its table a token's position has: that of its place, from 0; or from the row behind the padding word's
// number on, tokens that are that word not counted and themselves in the row of that number (RoBERTa's).
enum class PositionRows { kFromZero, kBehindPadding };

struct EmbeddingForm {
  std::string words, positions, types;  // tables by their parameters' names; of positions and types "": none
  std::string norm;                     // prefix of the LayerNorm's
  int64_t word_rows = 0, position_rows = 0, type_rows = 0;
  int64_t width = 0;
  const char* width_key = "hidden_size";  // of config.json
  PositionRows rows = PositionRows::kFromZero;
  Bias norm_bias = Bias::kOne;
  double eps = 0, dropout = 0;
  int64_t padding_word = 0;  // this row of the word table gets no gradient; kBehindPadding: of positions neither

  // Names as BERT has them: "<prefix>.word_embeddings.weight", …, "<prefix>.LayerNorm".
  static EmbeddingForm Of(const std::string& prefix);
};

class Embeddings {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EmbeddingForm& form);
  Embeddings(const ParameterMap& parameters, const EmbeddingForm& form);
  // [T, width]; without gradients, where processes share the tokens, [own tokens, width].
  torch::Tensor operator()(const TokenStream& tokens, const ForwardContext& context) const;
  const torch::Tensor& words() const { return words_; }

 private:
  torch::Tensor words_, positions_, types_;  // undefined: none
  LayerNorm norm_;
  PositionRows rows_;
  double dropout_;
  int32_t padding_word_;
};

}  // namespace lshformer
