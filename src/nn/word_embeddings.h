// The vectors of a batch's distinct words: word vector beside character vector → a map without bias → highway layers.
//
//   x = highway(M·[dropout(E[word]); character CNN(characters)])     [W, output]; without a map M is left out
//
// CS224N's BiDAF and both public QANets map, the BiDAF paper does not (Seo et al. 2017). With fixed_word_embeddings the
// table E is given: it gets no gradient, and its row 1, the unknown word's, is replaced by a trained one. Row 0 is the
// padding's and gets no gradient.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/character_cnn.h"
#include "nn/highway.h"
#include "nn/word_config.h"
#include "nn/word_streams.h"

namespace lshformer {

inline constexpr std::string_view kWordTable = "embeddings.word_embeddings.weight";
inline constexpr int32_t kUnknownWord = 1;

struct WordEmbeddingsShape {
  int64_t words;                     // vocab_size
  int64_t width;                     // embedding_size
  std::optional<int64_t> map = {};   // width behind the map
  HighwayShape highway{.width = 0};  // its width is set here
  WordConfig words_config;

  int64_t output() const { return map ? *map : width + words_config.character_filters; }
};

class WordEmbeddings {
 public:
  // All in the block "embeddings", whose names begin so: kWordTable, "embeddings.unknown_word.weight" with
  // fixed_word_embeddings, those of the character CNN, "embeddings.map.weight", "embeddings.highway.<layer>…".
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const WordEmbeddingsShape& shape);
  WordEmbeddings(const ParameterMap& parameters, const WordEmbeddingsShape& shape);
  // [W, output]. `context` is over the words (ContextOfWords).
  torch::Tensor operator()(const WordStreams& streams, const ForwardContext& context) const;

 private:
  torch::Tensor WordVectors(const std::vector<int32_t>& ids) const;  // [W, width]
  torch::Tensor table_, unknown_word_;                               // unknown_word_: undefined where none
  double word_dropout_;
  std::optional<CharacterCnn> characters_;
  std::optional<Linear> map_;
  Highway highway_;
};

}  // namespace lshformer
