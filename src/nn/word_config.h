// What models of whole words and their characters (BiDAF, QANet) share in config.json.
#pragma once
#include <cstdint>
#include <vector>

#include "base/option_table.h"

namespace lshformer {

struct WordConfig {
  int64_t character_vocab_size = 200;
  int64_t character_embedding_size = 64;
  int64_t character_filters = 100;     // width of a word's vector made of its characters; 0: there is none
  bool fixed_word_embeddings = false;  // the vectors were given: they stay as they are, but the unknown word's
  double word_dropout = 0.1;           // of word vectors
  double character_dropout = 0.05;     // of character vectors
};

// The keys of config.json that stand for members.
std::vector<Option<WordConfig>> WordOptions();

}  // namespace lshformer
