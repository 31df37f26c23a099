// How the process keeps the memory it works in.
#pragma once
#include <exception>

namespace lshformer {

// Tells malloc to keep up to half a gigabyte of what was freed instead of handing it back to the kernel: a training
// step frees and asks again for the same blocks of megabytes, and fresh pages cost a tenth of its time (masked-LM step
// of the BERT-LSH paper's model). Malloc maps and unmaps blocks of 32 MB and more whatever it is told; of those that
// tensors had, up to 256 MB are kept beside it, and smaller tensors are asked of it in its own way (large_blocks.h).
// Does nothing where malloc is not glibc's.
void KeepFreedMemory();
// Hands back what is kept so, and whatever else malloc has free: for a server after a text that was much longer than
// others. Takes milliseconds.
void ReturnFreedMemory();

bool IsOutOfMemory(const std::exception& error);  // of the standard library or of libtorch

}  // namespace lshformer
