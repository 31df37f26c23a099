// How the process keeps the memory it works in.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>

namespace lshformer {

// Tells malloc to keep up to half a gigabyte of what was freed instead of handing it back to the kernel: a training
// step frees and asks again for the same blocks of megabytes, and fresh pages cost a tenth of its time (masked-LM step
// of the BERT-LSH paper's model). Malloc maps and unmaps blocks of 32 MB and more whatever it is told; of those that
// tensors had, up to 256 MB are kept beside it, and smaller tensors are asked of it in its own way (large_blocks.h).
// Does nothing where malloc is not glibc's.
void KeepFreedMemory();

bool IsOutOfMemory(const std::exception& error);  // of the standard library or of libtorch

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
  kInner
};
inline constexpr int kWorkspaceUses = 9;
float* WorkspaceOf(WorkspaceUse use, size_t bytes);

}  // namespace lshformer
