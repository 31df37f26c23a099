// BERT's normaliser and pre-tokeniser in one pass: text in, words out, each character with the place it came from.
//
// In this order, as Hugging Face's: drop control characters and map white space to a space; put spaces around CJK
// ideographs; NFD and removal of marks (category Mn); lower case, character by character; then split at spaces, and
// punctuation into words of one character. Memory is that of the longest run of combining marks, not of the text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/normalized_text.h"

namespace lshformer {

struct NormalizerOptions {
  bool lowercase = true;
  bool strip_accents = true;
  bool ideographs = true;  // HF: tokenize_chinese_chars

  bool operator==(const NormalizerOptions&) const = default;
};

// A longer word is one [UNK], so its text beyond this is not kept.
inline constexpr int kMaxWordCharacters = 100;

struct Word {
  std::string_view text;             // normalised, UTF-8; cut if too_long
  const int32_t* origins = nullptr;  // where each byte of `text` came from; nullptr: begin, begin + 1, …
  int32_t begin = 0, end = 0;        // code points of the original text, half-open
  bool too_long = false;             // more than kMaxWordCharacters characters

  int32_t Origin(size_t byte) const { return origins == nullptr ? begin + static_cast<int32_t>(byte) : origins[byte]; }
};

class WordSink {
 public:
  virtual ~WordSink() = default;
  virtual bool Add(const Word& word) = 0;  // false: no more words, please
};

// `text` is valid UTF-8; its first code point is number `first`. Returns the number after its last code point, or −1
// if the sink has had enough.
int32_t SplitWords(std::string_view text, int32_t first, const NormalizerOptions& options, WordSink& sink);

// The two steps apart, for tokens that are looked for between them: the normalised text, and words of a part of it.
NormalizedText NormalizeForBert(std::string_view text, int32_t first, const NormalizerOptions& options);
bool SplitNormalized(NormalizedSpan text, WordSink& sink);  // false if the sink has had enough

}  // namespace lshformer
