// ASCII letters in lower case, whatever the locale; other bytes stay.
#pragma once
#include <string>

namespace lshformer {

inline std::string LowerCase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

}  // namespace lshformer
