#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace lshformer {

uint64_t StreamKey(uint64_t seed, uint64_t step, uint32_t layer, uint32_t head, Purpose purpose) {
  const auto first = Philox(seed, step, (uint64_t{layer} << 32) | head);
  const uint64_t mixed = (uint64_t{first[1]} << 32) | first[0];
  const auto second = Philox(mixed, (uint64_t{first[3]} << 32) | first[2], static_cast<uint64_t>(purpose));
  return (uint64_t{second[1]} << 32) | second[0];
}

uint32_t PhiloxStream::Next() {
  if (used_ == 4) {
    buffer_ = Philox(key_, block_++, substream_);
    used_ = 0;
  }
  return buffer_[used_++];
}

double PhiloxStream::Uniform() {
  const uint64_t high = Next() >> 5, low = Next() >> 6;  // 27 + 26 bits
  return static_cast<double>((high << 26) | low) * 0x1p-53;
}

double PhiloxStream::Normal() {
  if (has_normal_) {
    has_normal_ = false;
    return normal_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));  // 1 − u is never 0
  const double angle = 2.0 * std::numbers::pi * Uniform();
  normal_ = radius * std::sin(angle);
  has_normal_ = true;
  return radius * std::cos(angle);
}

uint64_t PhiloxStream::Below(uint64_t bound) {
  const uint64_t limit = ~uint64_t{0} - (~uint64_t{0} % bound + 1) % bound;  // largest multiple of bound, minus 1
  while (true) {
    const uint64_t low = Next(), value = (uint64_t{Next()} << 32) | low;
    if (value <= limit) return value % bound;
  }
}

}  // namespace lshformer
