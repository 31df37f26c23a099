// Learns a WordPiece vocabulary the way Hugging Face's WordPieceTrainer does: byte-pair merges with "##" before
// every piece that does not begin a word.
//
// Words are counted as the tokenizer will see them (words.h). The vocabulary begins with the special tokens, then the
// characters, then the characters with "##"; each step adds the concatenation of the most frequent adjacent pair of
// pieces, until the vocabulary is full or no pair is frequent enough. Among equally frequent pairs the one whose
// pieces have the lower ids wins.
//
// HF gives the ids of "##x" in the order of a randomly seeded hash table, so its own result differs slightly from run
// to run; here they go by code point, and the result is a function of the text alone, whatever the threads.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/words/words.h"

namespace lshformer {

struct WordPieceTraining {
  int32_t vocab_size = 30000;     // at most; special tokens and characters counted
  int64_t min_frequency = 2;      // of a pair that is merged
  int32_t limit_alphabet = 1000;  // the most frequent characters; others are left out
  NormalizerOptions normalizer{};
};

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
using WordCounts = std::unordered_map<std::string, int64_t, WordHash, std::equal_to<>>;

// How often each word occurs. Words longer than kMaxWordCharacters are left out: the tokenizer makes them [UNK].
class WordCounter {
 public:
  explicit WordCounter(const NormalizerOptions& options, size_t max_words = size_t{8} << 20)
      : options_(options), max_words_(max_words) {}

  // Counts the words of these texts (valid UTF-8) on all cores. When more than max_words different ones are held, the
  // rarest go, until half remain: memory is bounded, and the counts depend on how the texts are cut into calls.
  void Add(const std::vector<std::string>& texts);
  int64_t words() const { return words_; }  // counted, repetitions included
  const WordCounts& counts() const { return counts_; }

 private:
  void DropRareWords();

  NormalizerOptions options_;
  size_t max_words_;
  int64_t words_ = 0;
  WordCounts counts_;
};

// The tokens in order of their ids. Error if vocab_size has no room for the special tokens and one character, or if
// there are no words. Memory: O(characters of all different words).
std::vector<std::string> TrainWordPiece(const WordCounts& counts, const WordPieceTraining& training);

// vocab.txt and the JSON files beside it, for Tokenizer::Load.
void SaveWordPiece(const std::string& folder, const std::vector<std::string>& vocabulary,
                   const NormalizerOptions& options);

}  // namespace lshformer
