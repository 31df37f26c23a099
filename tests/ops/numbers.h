// Numbers to multiply, the same in every run.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "base/bfloat16.h"
#include "base/philox.h"

namespace lshformer::testing {

// Normal, times scale.
inline std::vector<float> Random(int64_t count, uint64_t key, double scale = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  PhiloxStream stream(key);
  for (float& value : values) value = static_cast<float>(scale * stream.Normal());
  return values;
}

inline float ToFloat(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

}  // namespace lshformer::testing
