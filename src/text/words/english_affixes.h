// What english_words.h takes off the ends of a chunk of text and parts it at.
#pragma once
#include <cstddef>
#include <string_view>

namespace lshformer {

// Characters of the prefix that `text` begins with; 0: none.
size_t EnglishPrefix(std::u32string_view text);
// Characters of the longest suffix that it ends with.
size_t EnglishSuffix(std::u32string_view text);
// Characters of the infix that stands at text[at], at ≥ 1.
size_t EnglishInfix(std::u32string_view text, size_t at);
// Whether it reads like www.example.com:8080/path, https://name@example.com or name@example.com.
bool IsEnglishAddress(std::u32string_view text);

}  // namespace lshformer
