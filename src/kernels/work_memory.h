// Memory that kernels work in: whole blocks, and of each thread one a purpose.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace lshformer {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
struct MemoryBlock {
  std::unique_ptr<void, FreeMemory> memory;
  size_t capacity = 0;
};
// At least `bytes`, in whole pages, huge ones where it is large enough and the system gives them.
MemoryBlock AllocateBlock(size_t bytes);

// Memory of the calling thread for one purpose, at least `bytes` large, aligned to 64; what it held is lost. It grows
// with the largest request and is freed when the thread ends.
enum class WorkspaceUse {
  kPrimitive,
  kLogits,
  kFilledFactor,
  kFilledSecond,
  kFilledResult,
  kPackedSecond,
  kLowFactor,
  kRowScales,
  kInner,
  kOrthogonal,
  kGated
};
inline constexpr int kWorkspaceUses = 11;
float* WorkspaceOf(WorkspaceUse use, size_t bytes);

}  // namespace lshformer
