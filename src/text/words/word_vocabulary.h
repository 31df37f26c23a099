// The words and characters of texts, as the vocabulary of a WordTokenizer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/words/word_tokenizer.h"

namespace lshformer {

struct SpellingHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
using Spellings = std::unordered_set<std::string, SpellingHash, std::equal_to<>>;

class WordVocabularyBuilder {
 public:
  // Longer words (in bytes) are left out, and the words [PAD] and [UNK].
  static constexpr size_t kLongestWord = 400;

  explicit WordVocabularyBuilder(size_t max_words = size_t{4} << 20) : max_words_(max_words) {}

  // Counts the words of these texts (valid UTF-8) on all cores. When more than max_words different ones are held, the
  // rarest go until half remain: memory is bounded, and the counts then depend on how the texts are cut into calls.
  void Add(const std::vector<std::string>& texts);
  int64_t words() const { return words_; }  // counted, repetitions included
  int64_t Count(std::string_view word) const;

  // The words that occur min_count times or more, the most frequent first, equally frequent ones in the order of their
  // bytes; at most vocab_size tokens, [PAD] and [UNK] included. All characters that occur, likewise. Error if there are
  // no words, or no room for one.
  std::shared_ptr<const WordTokenizer> Build(int64_t min_count, int64_t vocab_size) const;
  // These words, none of them twice, with the ids 2, 3, … in their order: those that there are vectors of, say. All
  // characters that occur in the texts.
  std::shared_ptr<const WordTokenizer> Build(const std::vector<std::string>& words) const;
  // The words counted and their case variants: all that the tokenizer looks for when it reads these texts.
  Spellings AllSpellings() const;

 private:
  using Counts = std::unordered_map<std::string, int64_t, SpellingHash, std::equal_to<>>;
  void DropRareWords();
  std::string CharactersText() const;

  size_t max_words_;
  int64_t words_ = 0;
  Counts counts_;
};

}  // namespace lshformer
