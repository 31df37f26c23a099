// Words and a vector of each.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lshformer {

struct WordVectors {
  static constexpr int64_t kWidest = 8192;

  int64_t width = 0;               // 1 to kWidest
  std::vector<std::string> words;  // no two alike
  std::vector<float> values;       // [words, width]
};

}  // namespace lshformer
