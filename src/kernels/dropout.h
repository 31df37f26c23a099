// Which seen pairs attention dropout drops: a pure function of (key, sequence id, head, i, j), cheap enough to be
// computed again in the backward.
//
// Every row i and every column j of a head gets two words of Philox. The decision of the pair mixes the four words with
// two multiplications (a 32-bit finaliser), so its cost does not depend on the order in which pairs are visited:
//
//   h = (r0 ^ c0) · M1,   h = (h ^ (h >> 15)) + r1 + c1,   h = (h ^ (h >> 16)) · M2,   dropped if h < probability · 2³²
#pragma once
#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace lshformer {

inline constexpr uint32_t kDropoutMultiplier1 = 0x7feb352d,
                          kDropoutMultiplier2 = 0x846ca68b;  // "lowbias32", C. Wellons

struct DropoutWords {
  uint32_t first, second;
};

inline uint64_t DropoutHeadKey(uint64_t key, uint64_t sequence_id, int head) {
  const auto words = Philox(key, sequence_id, static_cast<uint64_t>(head));
  return (uint64_t{words[1]} << 32) | words[0];
}
// side 0: queries, 1: keys.
inline DropoutWords DropoutSide(uint64_t head_key, int64_t position, uint64_t side) {
  const auto words = Philox(head_key, static_cast<uint64_t>(position), side);
  return {words[0], words[1]};
}
inline uint32_t DropoutThreshold(float probability) {
  return static_cast<uint32_t>(std::lround(std::fmin(static_cast<double>(probability) * 0x1p32, 4294967295.0)));
}
inline bool IsDropped(DropoutWords query, DropoutWords key, uint32_t threshold) {
  uint32_t h = (query.first ^ key.first) * kDropoutMultiplier1;
  h = (h ^ (h >> 15)) + query.second + key.second;
  h = (h ^ (h >> 16)) * kDropoutMultiplier2;
  return h < threshold;
}

}  // namespace lshformer
