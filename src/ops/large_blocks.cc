#include "ops/large_blocks.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "ops/tensor_allocator.h"

namespace lshformer {
namespace {

// allocate(), and where memory is short once more without the blocks that are kept free.
template <class Allocation>
auto OrGiveUp(LargeBlocks& blocks, const Allocation& allocate) {
  try {
    return allocate();
  } catch (const std::bad_alloc&) {
    blocks.GiveUp();
  }
  return allocate();
}

}  // namespace

// Of the lock's owner.
MemoryBlock LargeBlocks::Taken(MemoryBlock block) {
  taken_bytes_ += block.capacity;
  most_taken_ = std::max(most_taken_, taken_bytes_);
  return block;
}

void LargeBlocks::GiveUpFirst(std::deque<MemoryBlock>& given_up) {
  free_bytes_ -= free_.front().capacity;
  given_up.push_back(std::move(free_.front()));
  free_.pop_front();
}

MemoryBlock LargeBlocks::Take(size_t bytes) {
  {
    std::deque<MemoryBlock> given_up;  // unmapped when the lock is gone
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      if (block->capacity < bytes || block->capacity > bytes + bytes / 4) continue;
      if (best == free_.end() || block->capacity < best->capacity) best = block;
    }
    if (best != free_.end()) {
      MemoryBlock taken = std::move(*best);
      free_.erase(best);
      free_bytes_ -= taken.capacity;
      return Taken(std::move(taken));
    }
    const size_t most = std::max(most_taken_, taken_bytes_ + bytes) + slack_;
    while (!free_.empty() && taken_bytes_ + free_bytes_ + bytes > most) GiveUpFirst(given_up);
  }
  MemoryBlock fresh = OrGiveUp(*this, [&] { return AllocateBlock(bytes); });
  const std::lock_guard lock(mutex_);
  return Taken(std::move(fresh));
}

void LargeBlocks::GiveUp() {
  std::deque<MemoryBlock> given_up;  // unmapped when the lock is gone
  const std::lock_guard lock(mutex_);
  given_up.swap(free_);
  free_bytes_ = 0;
}

void LargeBlocks::Give(MemoryBlock block) {
  std::deque<MemoryBlock> given_up;  // unmapped when the lock is gone
  const std::lock_guard lock(mutex_);
  taken_bytes_ -= block.capacity;
  free_bytes_ += block.capacity;
  free_.push_back(std::move(block));
  while (free_bytes_ > limit_) GiveUpFirst(given_up);
}

size_t LargeBlocks::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

namespace {

constexpr size_t kAlignment = 64;  // of all tensors in libtorch

struct Keeper {
  size_t smallest;
  LargeBlocks blocks;
};
Keeper* keeper = nullptr;  // never deleted: some tensor may be the last thing to go

void GiveBack(void* context) {
  auto* block = static_cast<MemoryBlock*>(context);
  keeper->blocks.Give(std::move(*block));
  delete block;
}

c10::DataPtr AllocateSmall(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, cpu};
  size_t space = bytes + kAlignment;
  void* memory = OrGiveUp(keeper->blocks, [&] {
    void* taken = std::malloc(space);
    if (taken == nullptr) throw std::bad_alloc();
    return taken;
  });
  void* aligned = memory;
  std::align(kAlignment, bytes, aligned, space);
  return {aligned, memory, &std::free, cpu};
}

c10::DataPtr Allocate(size_t bytes) {
  if (bytes < keeper->smallest) return AllocateSmall(bytes);
  auto* block = new MemoryBlock(keeper->blocks.Take(bytes));
  return {block->memory.get(), block, &GiveBack, c10::Device(c10::DeviceType::CPU)};
}

}  // namespace

void KeepTensors(size_t smallest, size_t limit, size_t slack) {
  if (keeper != nullptr) return;
  keeper = new Keeper{smallest, LargeBlocks(limit, slack)};
  static TensorAllocator allocator(&Allocate);
  c10::SetCPUAllocator(&allocator);
}

void GiveUpKeptTensors() {
  if (keeper != nullptr) keeper->blocks.GiveUp();
}

}  // namespace lshformer
