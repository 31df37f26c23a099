#include "ops/tensor_memory.h"

#include <atomic>

#include "base/error.h"
#include "ops/tensor_allocator.h"

namespace lshformer {
namespace {

std::atomic<int64_t> alive{0};
std::atomic<int64_t> most{0};
std::atomic<bool> counting{false};
std::atomic<int64_t> counts{0};  // TensorMemory objects so far: a block may outlive the one that counts it

struct Block {
  c10::DataPtr memory;
  int64_t bytes, count;
};

void Free(void* context) {
  auto* block = static_cast<Block*>(context);
  if (block->count == counts) alive -= block->bytes;
  delete block;
}

c10::Allocator* Default() {
  static c10::Allocator* const allocator = c10::GetCPUAllocator();
  return allocator;
}

c10::DataPtr Allocate(size_t bytes) {
  auto* block = new Block{Default()->allocate(bytes), static_cast<int64_t>(bytes), counts};
  const int64_t now = alive += block->bytes;
  for (int64_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
  }
  return {block->memory.get(), block, &Free, c10::Device(c10::DeviceType::CPU)};
}

}  // namespace

TensorMemory::TensorMemory() {
  if (counting.exchange(true)) Fail("tensor memory is being counted already");
  Default();  // before it is replaced
  static TensorAllocator allocator(&Allocate);
  ++counts;
  alive = most = 0;
  c10::SetCPUAllocator(&allocator);
}

TensorMemory::~TensorMemory() {
  c10::SetCPUAllocator(Default());
  counting = false;
}

int64_t TensorMemory::bytes() const { return alive; }
int64_t TensorMemory::peak() const { return most; }

}  // namespace lshformer
