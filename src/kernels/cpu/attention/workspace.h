// Aligned work memory of one thread, kept between calls so that the steady state allocates nothing.
#pragma once
#include <hwy/aligned_allocator.h>
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

namespace lshformer {

// What a piece of work memory holds; each has its own buffer, which grows to the largest use and is kept.
enum class Slot {
  kColumns,
  kColumnValues,
  kKeyScales,
  kDropoutColumns,
  kNotFiniteColumns,
  kColumnGradients,
  kValueGradients,
  kRowGradients,
  kRowGradientSums,
  kRowSum,
  kFillScore,
  kFillWeight,
  kMeanKey,
  kUnseenValues,
  kSums,
  kScoreGradientSum,
  kVisits,
  // a unit's rows, where it has copies of its own
  kUnitQuery,
  kUnitKey,
  kUnitValue,
  kUnitOut,
  kUnitGradOut,
  kUnitGradQuery,
  kUnitGradKey,
  kUnitGradValue,
  kVisitSums,
  // of a tile
  kRows,
  kRowsTransposed,
  kGradOut,
  kGradOutTransposed,
  kScores,
  kProbabilityGradients,
  kAccumulator,
  // of a tile whose products are of bfloat16 pairs
  kRowPairs,
  kGradOutPairs,
  kWeightPairs,
  kColumnPairs,
  // where products go through AMX tiles
  kColumnPanels,
  kNaturalRows,
  kSecondParts,
  kWeightRows,
  kGradientRows,
  kGradientPairs,
  kTransposedSums,
  kPaddedRows,
  kProductSums,
  kCount
};

// Memory that is read in any order, or as fast as it comes, misses the table of pages at most reads where pages are
// small; and to get so many of them takes a fifth of the time of a call that gives them back.
inline void AskForLargePages(uint8_t* memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr size_t kPage = 4096, kLarge = size_t{1} << 21;
  if (bytes < 2 * kLarge) return;
  const size_t skipped = (kPage - reinterpret_cast<uintptr_t>(memory) % kPage) % kPage;
  madvise(memory + skipped, (bytes - skipped) / kPage * kPage, MADV_HUGEPAGE);  // a wish: its refusal changes nothing
#endif
}

class Workspace {
 public:
  template <class T>
  T* Get(Slot slot, int64_t count) {
    Buffer& buffer = buffers_[static_cast<size_t>(slot)];
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > buffer.bytes) {
      buffer.memory.reset();  // first give back, then take: the two never add up
      buffer.bytes = 0;
      buffer.memory = hwy::AllocateAligned<uint8_t>(bytes);
      if (!buffer.memory) throw std::bad_alloc();
      buffer.bytes = bytes;
      AskForLargePages(buffer.memory.get(), bytes);
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
  struct Buffer {
    hwy::AlignedFreeUniquePtr<uint8_t[]> memory;
    size_t bytes = 0;
  };
  std::array<Buffer, static_cast<size_t>(Slot::kCount)> buffers_;
};

Workspace& ThreadWorkspace();

}  // namespace lshformer
