// A word's vector made of its characters: the maximum of a convolution over them (Kim 2014, as BiDAF and QANet use it).
//
//   y[w] = max over s of relu(W·[e_s; …; e_{s+4}] + b),   e_s the vector of character s, 0 beyond the word's end
//
// The published models fill every word up to 16 characters, which gives 12 windows of 5. All windows that begin behind
// the word's end are alike, so a word of n characters has the same maximum over its first min(n + 1, 12) windows, and
// only these are computed: 4 in place of 12 for a word of three letters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/batch.h"
#include "nn/character_window.h"
#include "nn/forward_context.h"
#include "nn/parameters.h"

namespace lshformer {

struct CharacterCnnShape {
  int64_t characters;  // character_vocab_size
  int64_t width;       // character_embedding_size
  int64_t filters;
  double dropout = 0;  // of the characters' vectors
};

class CharacterCnn {
 public:
  // "<prefix>.character_embeddings.weight" [characters, width], "<prefix>.character_convolution.weight" [filters,
  // 5 · width], the first character's numbers first, and ".bias".
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const CharacterCnnShape& shape);
  CharacterCnn(const ParameterMap& parameters, const std::string& prefix, const CharacterCnnShape& shape);
  // characters: one sequence a word, of 1 to 16 ids → [words, filters]. Row 0 of the table is the padding's: it stays
  // 0. context.rows: of the words.
  torch::Tensor operator()(const TokenStream& characters, const ForwardContext& context) const;

 private:
  torch::Tensor table_;
  Linear convolution_;
  double dropout_;
};

}  // namespace lshformer
