// How the process keeps the memory it works in.
#pragma once
#include <cstddef>

namespace lshformer {

// Tells malloc to keep up to half a gigabyte of what was freed instead of handing it back to the kernel: a training
// step frees and asks again for the same blocks of megabytes, and fresh pages cost a tenth of its time (masked-LM step
// of the BERT-LSH paper's model). Does nothing where malloc is not glibc's.
void KeepFreedMemory();

// Memory of the calling thread for one purpose, at least `bytes` large, aligned to 64; what it held is lost. It grows
// with the largest request and is freed when the thread ends.
enum class WorkspaceUse {
  kPrimitive,
  kLogits,
  kFilledFactor,
  kFilledSecond,
  kFilledResult,
  kLowFactor,
  kRowScales,
  kInner
};
inline constexpr int kWorkspaceUses = 8;
float* WorkspaceOf(WorkspaceUse use, size_t bytes);

}  // namespace lshformer
