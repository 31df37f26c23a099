// The regular expressions by which byte-level BPE cuts texts into words, by hand: GPT-2's,
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// and that of later vocabularies, with {1,3} digits, one, or any number,
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// Words follow one another without gaps. Time is linear in the text: no place is looked at more than four times.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lshformer {

struct WordPattern {
  bool later = false;        // the second form
  size_t digits = SIZE_MAX;  // of a word, at most
};

// None for any other expression.
std::optional<WordPattern> WordPatternOf(std::string_view expression);

// Where the word ends that begins at `begin` < text.size(). `text` is valid UTF-8.
size_t WordEnd(const WordPattern& pattern, std::string_view text, size_t begin);

}  // namespace lshformer
