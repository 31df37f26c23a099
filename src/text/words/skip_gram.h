// Word vectors from text: skip-gram with negative sampling (word2vec; Mikolov, Sutskever, Chen, Corrado, Dean:
// "Distributed representations of words and phrases and their compositionality", NIPS 2013).
//
//   minimise  − Σ over words c of the text, over the words i around c:  log σ(u_i·v_c) + Σ_n log σ(− u_i·v_n)
//
// u: the vectors that are returned, v: those of the words as targets. The words i are those up to b words from c in the
// same text, b drawn from 1 … window for each c. The targets n are `negative` words drawn with probability ∝
// count^0.75, the same ones for all i of one c (Ji, Satish, Li, Dubey: "Parallelizing word2vec in shared and
// distributed memory", 2016); one that is c itself is left out. Before each epoch an occurrence of a word of frequency
// f stays in the text with probability min(1, √(sample / f) + sample / f), as in word2vec's program. The rate falls
// linearly to 1e-4 of its start.
//
// Stochastic gradient descent by mini-batches of kSkipGramBatch words c: all gradients of a batch are of the vectors
// before it, a vector's are added in the order of the text, and every random number is a function of (seed, epoch,
// place). So the vectors have the same bits for any number of threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/words/word_vectors.h"

namespace lshformer {

inline constexpr int64_t kSkipGramBatch = 256;

struct SkipGramOptions {
  int64_t vector_size = 300;
  int64_t window = 5;     // words on either side, at most kWidestWindow
  int64_t min_count = 5;  // rarer words have no vector
  int64_t epochs = 5;
  int64_t negative = 5;  // at most kMostNegative
  double sample = 1e-3;  // 0: all occurrences stay
  double learning_rate = 0.025;
  uint64_t seed = 42;

  static constexpr int64_t kWidestWindow = 100, kMostNegative = 100;
};

// A text as numbers of words (english_words.h). Memory: 4 bytes a word, and each different word once.
class SkipGramText {
 public:
  explicit SkipGramText(bool lowercase) : lowercase_(lowercase) {}

  // Texts (valid UTF-8), on all cores: paragraphs, say. Words of different ones are not around each other.
  void Add(const std::vector<std::string>& texts);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()) - texts_; }  // words
  const std::vector<int32_t>& tokens() const { return tokens_; }                  // numbers of words; −1 ends a text
  const std::vector<std::string>& words() const { return words_; }  // in the order of their first occurrence
  const std::vector<int64_t>& counts() const { return counts_; }    // [words]

 private:
  bool lowercase_;
  std::vector<int32_t> tokens_;
  std::vector<std::string> words_;
  std::vector<int64_t> counts_;
  std::unordered_map<std::string, int32_t> numbers_;
  int64_t texts_ = 0;
};

// Words that occur min_count times, the most frequent first (of equals the one that occurs first). Error if there are
// fewer than two; OptionError of an option out of its range. Stops at a signal (Interrupted). Memory: 8 · vector_size
// bytes a word beside the text, and 4 bytes a word of the text.
WordVectors TrainSkipGram(const SkipGramText& text, const SkipGramOptions& options);

}  // namespace lshformer
