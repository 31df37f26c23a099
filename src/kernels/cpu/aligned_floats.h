// Memory for vectors of floats.
#pragma once
#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <new>

namespace lshformer {

using AlignedFloats = hwy::AlignedFreeUniquePtr<float[]>;

// std::bad_alloc where there is none.
inline AlignedFloats AllocateFloats(int64_t count) {
  AlignedFloats memory = hwy::AllocateAligned<float>(static_cast<size_t>(count));
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace lshformer
