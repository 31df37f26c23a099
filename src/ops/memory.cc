#include "ops/memory.h"

#include <cstdlib>
#include <new>
#include <string_view>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "ops/large_blocks.h"

namespace lshformer {
namespace {

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
  KeepTensors(kMmapThreshold, /*limit=*/size_t{256} << 20, /*slack=*/size_t{64} << 20);
#endif
}

void ReturnFreedMemory() {
  GiveUpKeptTensors();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace lshformer
