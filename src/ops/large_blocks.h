// Large blocks of memory, kept for whoever asks next instead of being unmapped and mapped again: a page of memory fresh
// from the kernel costs its zeroing and a fault, for the gradient of a table of 30,000 words 11,000 faults a step.
#pragma once
#include <cstddef>
#include <deque>
#include <mutex>

#include "kernels/work_memory.h"

namespace lshformer {

class LargeBlocks {
 public:
  // limit: bytes of free blocks, at most. slack: as many bytes more than were ever taken at once lie here, at most.
  LargeBlocks(size_t limit, size_t slack) : limit_(limit), slack_(slack) {}

  // At least `bytes`: the smallest free block that has them and at most a quarter more, or a new one. For a new one
  // free ones are given up, those given first, as far as the slack asks for it, and all where memory is short. Throws
  // std::bad_alloc. From any thread, as Give.
  MemoryBlock Take(size_t bytes);
  // Keeps the block; those that were given first go, and the block itself where it alone is above the limit.
  void Give(MemoryBlock block);
  void GiveUp();  // all free blocks
  size_t free_bytes() const;

 private:
  MemoryBlock Taken(MemoryBlock block);
  void GiveUpFirst(std::deque<MemoryBlock>& given_up);

  const size_t limit_, slack_;
  mutable std::mutex mutex_;
  std::deque<MemoryBlock> free_;  // the first given first
  size_t free_bytes_ = 0, taken_bytes_ = 0, most_taken_ = 0;
};

// From now on tensors of `smallest` bytes or more, on any thread, take their memory from one LargeBlocks; smaller ones
// from malloc, 64 bytes more than they need, aligned here. libtorch asks posix_memalign, which cuts crumbs off both
// ends of every block: freed blocks of many sizes then do not grow together, and a step on texts of unequal lengths
// took up to half as much memory again, and a tenth more time. Once a process.
void KeepTensors(size_t smallest, size_t limit, size_t slack);
void GiveUpKeptTensors();  // the blocks that are free

}  // namespace lshformer
