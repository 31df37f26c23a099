#include "ops/large_blocks.h"

#include <algorithm>
#include <new>
#include <utility>

#include "ops/tensor_allocator.h"

namespace lshformer {

MemoryBlock LargeBlocks::Take(size_t bytes) {
  {
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
      return taken;
    }
  }
  try {
    return AllocateBlock(bytes);
  } catch (const std::bad_alloc&) {
    std::deque<MemoryBlock> given_up;
    const std::lock_guard lock(mutex_);
    given_up.swap(free_);
    free_bytes_ = 0;
  }
  return AllocateBlock(bytes);
}

void LargeBlocks::Give(MemoryBlock block) {
  std::deque<MemoryBlock> given_up;  // unmapped when the lock is gone
  const std::lock_guard lock(mutex_);
  free_bytes_ += block.capacity;
  free_.push_back(std::move(block));
  while (free_bytes_ > limit_) {
    free_bytes_ -= free_.front().capacity;
    given_up.push_back(std::move(free_.front()));
    free_.pop_front();
  }
}

size_t LargeBlocks::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

namespace {

struct Keeper {
  size_t smallest;
  c10::Allocator* small;  // libtorch's own
  LargeBlocks blocks;
};
Keeper* keeper = nullptr;  // never deleted: some tensor may be the last thing to go

void GiveBack(void* context) {
  auto* block = static_cast<MemoryBlock*>(context);
  keeper->blocks.Give(std::move(*block));
  delete block;
}

c10::DataPtr Allocate(size_t bytes) {
  if (bytes < keeper->smallest) return keeper->small->allocate(bytes);
  auto* block = new MemoryBlock(keeper->blocks.Take(bytes));
  return {block->memory.get(), block, &GiveBack, c10::Device(c10::DeviceType::CPU)};
}

}  // namespace

void KeepLargeTensors(size_t smallest, size_t limit) {
  if (keeper != nullptr) return;
  keeper = new Keeper{smallest, c10::GetCPUAllocator(), LargeBlocks(limit)};
  static TensorAllocator allocator(&Allocate);
  c10::SetCPUAllocator(&allocator);
}

}  // namespace lshformer
