// A text on its way to tokens: its characters as a normaliser has made them, each with the code points of the original
// text that it came from.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lshformer {

struct NormalizedCharacter {
  char32_t c;
  int32_t begin, end;  // code points of the original text, half-open
};
using NormalizedText = std::vector<NormalizedCharacter>;
using NormalizedSpan = std::span<const NormalizedCharacter>;

// `text` as it is, valid UTF-8; its first code point is number `first`.
NormalizedText OriginalText(std::string_view text, int32_t first);

// The text in UTF-8. `places`, where given, is for each byte the number of its character, and their number at the end.
std::string Utf8Of(NormalizedSpan text, std::vector<uint32_t>* places = nullptr);

// A part of a text in which nothing is looked for across its ends: at most `most` bytes from `begin` on, of a longer
// text up to a space behind a letter or digit of ASCII, so that what is done to both sides is what is done to the
// whole; without such a place, wherever that is. Returns its end.
size_t StretchEnd(std::string_view text, size_t begin, size_t most);
inline constexpr size_t kStretchBytes = size_t{1} << 20;    // memory is some 100 times this
inline constexpr size_t kWholeTextBytes = size_t{1} << 26;  // where parts are not what the whole is

}  // namespace lshformer
