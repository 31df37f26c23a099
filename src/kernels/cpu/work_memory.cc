#include "kernels/work_memory.h"

#include <sys/mman.h>

#include <array>
#include <new>

namespace lshformer {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

MemoryBlock AllocateBlock(size_t bytes) {
  const bool huge = bytes >= kHugePage;
  const size_t unit = huge ? kHugePage : 4096;
  MemoryBlock block;
  block.capacity = (bytes + unit) / unit * unit;
  block.memory.reset(std::aligned_alloc(unit, block.capacity));
  if (!block.memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (huge) madvise(block.memory.get(), block.capacity, MADV_HUGEPAGE);  // a wish: its refusal changes nothing
#endif
  return block;
}

float* WorkspaceOf(WorkspaceUse use, size_t bytes) {
  thread_local std::array<MemoryBlock, kWorkspaceUses> buffers;
  MemoryBlock& buffer = buffers[static_cast<size_t>(use)];
  if (bytes > buffer.capacity || !buffer.memory) {
    buffer = {};  // first the old one's end
    buffer = AllocateBlock(bytes);
  }
  return static_cast<float*>(buffer.memory.get());
}

}  // namespace lshformer
