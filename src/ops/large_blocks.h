// Large blocks of memory, kept for whoever asks next instead of being unmapped and mapped again: a page of memory fresh
// from the kernel costs its zeroing and a fault, for the gradient of a table of 30,000 words 11,000 faults a step.
#pragma once
#include <cstddef>
#include <deque>
#include <mutex>

#include "ops/memory.h"

namespace lshformer {

class LargeBlocks {
 public:
  explicit LargeBlocks(size_t limit) : limit_(limit) {}  // bytes of free blocks, at most

  // At least `bytes`: the smallest free block that has them and at most a quarter more, or a new one. Where memory is
  // short, the free ones are given up first. Throws std::bad_alloc. From any thread, as Give.
  MemoryBlock Take(size_t bytes);
  // Keeps the block; those that were given first go, and the block itself where it alone is above the limit.
  void Give(MemoryBlock block);
  size_t free_bytes() const;

 private:
  const size_t limit_;
  mutable std::mutex mutex_;
  std::deque<MemoryBlock> free_;  // the first given first
  size_t free_bytes_ = 0;
};

// From now on tensors of `smallest` bytes or more, on any thread, take their memory from one LargeBlocks. Once a
// process.
void KeepLargeTensors(size_t smallest, size_t limit);

}  // namespace lshformer
