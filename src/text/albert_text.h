// What ALBERT's tokenizer does to a text before SentencePiece sees it, each character with the place it came from.
//
// In this order, as Hugging Face's AlbertTokenizer: white space at both ends goes, other runs of it become one space;
// `` and '' become "; NFKD and removal of combining characters (combining class ≠ 0, which is not category Mn); lower
// case. Lower case is that of each character by itself (Σ → σ everywhere), taken before NFKD and after.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lshformer {

struct AlbertTextOptions {
  bool lowercase = true;      // HF: do_lower_case
  bool remove_space = true;   // white space
  bool keep_accents = false;  // no NFKD, nothing removed

  bool operator==(const AlbertTextOptions&) const = default;
};

class AlbertText {
 public:
  using Range = std::pair<int32_t, int32_t>;  // code points of the original text, half-open

  // `original` is valid UTF-8; its first code point is number `first`.
  AlbertText(std::string_view original, int32_t first, const AlbertTextOptions& options);

  const std::string& text() const { return text_; }
  // The code points that the bytes [begin, end) come from. Of an empty range: the place before that of byte `begin`.
  Range Origin(size_t begin, size_t end) const;

 private:
  void Add(char32_t c, const AlbertTextOptions& options, Range origin);
  void Put(char32_t c, Range origin);
  void PutByte(char byte, Range origin);

  std::string text_;
  int32_t first_;               // where byte 0 came from; byte i from first_ + i as long as origins_ is empty
  std::vector<Range> origins_;  // [bytes], or empty
};

// White space as Python's str.split sees it.
bool IsPythonSpace(char32_t c);

}  // namespace lshformer
