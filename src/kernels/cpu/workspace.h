// Aligned work memory of one thread, kept between calls so that the steady state allocates nothing.
#pragma once
#include "kernels/cpu/targets.h"
// (above: before any Highway header)
#include <hwy/aligned_allocator.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace lshformer {

// What a piece of work memory holds; each has its own buffer, which grows and never shrinks below its last use.
enum class Slot {
  kColumns,
  kColumnValues,
  kColumnGrads,
  kValueGrads,
  kRows,
  kRowsTransposed,
  kGradOut,
  kGradOutTransposed,
  kScores,
  kProbabilityGrads,
  kRowSum,
  kAccumulator,
  kFillScore,
  kFillWeight,
  kMeanKey,
  kUnseenValues,
  kDropoutColumns,
  kScoreGradientSum,
  kCount
};

class Workspace {
 public:
  template <class T>
  T* Get(Slot slot, int64_t count) {
    Buffer& buffer = buffers_[static_cast<size_t>(slot)];
    const size_t bytes = static_cast<size_t>(count) * sizeof(T) + kSlack;
    if (bytes > buffer.bytes) {
      buffer.memory.reset();  // first give back, then take: the two never add up
      buffer.memory = hwy::AllocateAligned<uint8_t>(bytes);
      buffer.bytes = bytes;
    }
    return reinterpret_cast<T*>(buffer.memory.get());
  }
  // Gives back buffers of more than `bytes`: what one very long sequence needed is not kept for ever.
  void Trim(size_t bytes) {
    for (Buffer& buffer : buffers_) {
      if (buffer.bytes > bytes) buffer = {};
    }
  }

 private:
  static constexpr size_t kSlack = 64;  // whole vectors may be read past the end
  struct Buffer {
    hwy::AlignedFreeUniquePtr<uint8_t[]> memory;
    size_t bytes = 0;
  };
  std::array<Buffer, static_cast<size_t>(Slot::kCount)> buffers_;
};

Workspace& ThreadWorkspace();

}  // namespace lshformer
