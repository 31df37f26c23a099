// UTF-8, one code point at a time.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lshformer {

// Reads the code point at `text` and moves past it. The text must be valid UTF-8.
inline char32_t NextCodePoint(const char*& text) {
  const auto byte = [&] { return static_cast<uint8_t>(*text++); };
  const uint32_t first = byte();
  if (first < 0x80) return first;
  if (first < 0xE0) {
    const uint32_t second = byte();
    return (first & 0x1F) << 6 | (second & 0x3F);
  }
  const uint32_t second = byte() & 0x3F, third = byte() & 0x3F;
  if (first < 0xF0) return (first & 0x0F) << 12 | second << 6 | third;
  const uint32_t fourth = byte() & 0x3F;
  return (first & 0x07) << 18 | second << 12 | third << 6 | fourth;
}

inline void AppendUtf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
            static_cast<char>(0x80 | (c & 0x3F))};
  } else {
    out += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
            static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
  }
}

// Every byte but the continuation bytes 10xxxxxx begins a code point.
inline bool BeginsCodePoint(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

// Where the code point before `at` > 0 begins.
inline size_t PreviousCodePoint(std::string_view text, size_t at) {
  do --at;
  while (!BeginsCodePoint(text[at]));
  return at;
}

}  // namespace lshformer
