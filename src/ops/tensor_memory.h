// How much memory tensors take.
#pragma once
#include <cstdint>

namespace lshformer {

// Counts, while it lives, the bytes of CPU tensors allocated since it was made, on any thread. Tensors from before do
// not count, nor does their end. One at a time; kernels' work memory is not a tensor (kernels/execution.h states it).
class TensorMemory {
 public:
  TensorMemory();
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;
  int64_t bytes() const;  // alive
  int64_t peak() const;   // the most that was alive at once
};

}  // namespace lshformer
