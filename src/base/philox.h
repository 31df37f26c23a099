// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A number is a pure function of (key, counter), so planes, dropout masks, masking and data order do not depend on
// threads, on batch composition or on how often they are asked for.
#pragma once
#include <array>
#include <cstdint>

namespace lshformer {

// What a stream of random numbers is for; streams of different purposes never share numbers.
// The values are part of every checkpoint's reproducibility: append, never renumber.
enum class Purpose : uint32_t {
  kInitialization = 1,
  kShuffle = 2,
  kMasking = 3,
  kHiddenDropout = 4,
  kAttentionDropout = 5,
  kPlanes = 6,
  kCoefficients = 7,
  kSplit = 8,
  kSynthetic = 9,
  kBenchmark = 10,
  kRotations = 11,
  kSentencePairs = 12,
  kDirections = 13,
};

// The ten-round bijection: 128-bit counter, 64-bit key, 128 random bits.
inline std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;  // the golden ratio
    k1 += 0xBB67AE85;  // √3 − 1
  }
  return {c0, c1, c2, c3};
}

// The key of a stream. `layer` and `head` are 0 where they mean nothing.
uint64_t StreamKey(uint64_t seed, uint64_t step, uint32_t layer, uint32_t head, Purpose purpose);

// Numbers one after another from one key.
class PhiloxStream {
 public:
  explicit PhiloxStream(uint64_t key, uint64_t substream = 0) : key_(key), substream_(substream) {}
  uint32_t Next();                 // 32 uniform bits
  double Uniform();                // [0, 1), 53 bits
  double Normal();                 // N(0, 1), Box-Muller
  uint64_t Below(uint64_t bound);  // uniform in [0, bound), unbiased; bound ≥ 1

 private:
  uint64_t key_, substream_, block_ = 0;
  std::array<uint32_t, 4> buffer_{};
  int used_ = 4;
  bool has_normal_ = false;
  double normal_ = 0;
};

}  // namespace lshformer
