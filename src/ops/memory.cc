#include "ops/memory.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "ops/large_blocks.h"

namespace lshformer {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
#ifdef __GLIBC__
constexpr size_t kMmapThreshold = size_t{32} << 20;  // the largest that mallopt takes
#endif

}  // namespace

bool IsOutOfMemory(const std::exception& error) {
  // libtorch: "[enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to …"
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         std::string_view(error.what()).find("can't allocate memory") != std::string_view::npos;
}

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(kMmapThreshold));
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  KeepTensors(kMmapThreshold, /*limit=*/size_t{256} << 20);
#endif
}

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
