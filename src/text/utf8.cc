#include "text/utf8.h"

#include <unicode/utf8.h>

#include <cstring>
#include <string_view>

#include "text/tokenizer.h"

namespace lshformer {
namespace {

// The length of the longest prefix that is ASCII, in steps of eight bytes.
size_t AsciiPrefix(std::string_view bytes) {
  size_t at = 0;
  for (uint64_t word; at + 8 <= bytes.size(); at += 8) {
    std::memcpy(&word, bytes.data() + at, 8);
    if (word & 0x8080808080808080) break;
  }
  return at;
}

// The first position at or after `at` that is not valid UTF-8, or bytes.size().
size_t FirstInvalid(std::string_view bytes, size_t at) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto size = static_cast<int64_t>(bytes.size());
  auto next = static_cast<int64_t>(at);
  while (next < size) {
    if (data[next] < 0x80) {
      next += static_cast<int64_t>(AsciiPrefix(bytes.substr(static_cast<size_t>(next))));
      if (next >= size) break;
    }
    const int64_t start = next;
    UChar32 c;
    U8_NEXT(data, next, size, c);
    if (c < 0) return static_cast<size_t>(start);
  }
  return bytes.size();
}

}  // namespace

bool IsValidUtf8(std::string_view bytes) { return FirstInvalid(bytes, 0) == bytes.size(); }

std::string CleanUtf8(std::string_view bytes, int64_t* replaced) {
  std::string clean;
  clean.reserve(bytes.size());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  for (size_t at = 0;;) {
    const size_t bad = FirstInvalid(bytes, at);
    clean.append(bytes, at, bad - at);
    if (bad == bytes.size()) return clean;
    // One U+FFFD for each maximal part of a character, as Python and browsers do.
    auto next = static_cast<int64_t>(bad);
    UChar32 c;
    U8_NEXT(data, next, static_cast<int64_t>(bytes.size()), c);
    clean += "\xEF\xBF\xBD";
    if (replaced != nullptr) ++*replaced;
    at = static_cast<size_t>(next);
  }
}

}  // namespace lshformer
