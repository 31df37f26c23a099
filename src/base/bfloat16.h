// A number in bfloat16, as memory holds it.
#pragma once
#include <cstdint>

namespace lshformer {

// The upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

}  // namespace lshformer
