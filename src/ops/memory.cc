#include "ops/memory.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lshformer {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
struct Buffer {
  std::unique_ptr<void, Free> memory;
  size_t capacity = 0;
};

}  // namespace

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest it takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

float* WorkspaceOf(WorkspaceUse use, size_t bytes) {
  thread_local std::array<Buffer, kWorkspaceUses> buffers;
  Buffer& buffer = buffers[static_cast<size_t>(use)];
  if (bytes > buffer.capacity || !buffer.memory) {
    const bool huge = bytes >= kHugePage;
    const size_t unit = huge ? kHugePage : 4096;
    buffer.memory.reset();
    buffer.capacity = (bytes + unit) / unit * unit;
    buffer.memory.reset(std::aligned_alloc(unit, buffer.capacity));
    if (!buffer.memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (huge) madvise(buffer.memory.get(), buffer.capacity, MADV_HUGEPAGE);  // a wish: its refusal changes nothing
#endif
  }
  return static_cast<float*>(buffer.memory.get());
}

}  // namespace lshformer
