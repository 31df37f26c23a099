// A toy family: what a new model needs, and nothing else. A text is the mean of its words and of its characters:
//
//   h_b = mean over words of W[w] + character_weight · mean over characters of C[c],   logits = classifier(h_b)
//
// With fixed_words W is given and not trained.
#pragma once
#include "models/family.h"

namespace lshformer {

struct BagOfWordsConfig {
  int64_t character_vocab_size = 30;
  double character_weight = 0.5;
  bool fixed_words = false;
};

extern const Family kBagOfWordsFamily;

}  // namespace lshformer
