// An allocator of CPU tensors made of a function.
#pragma once
#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace lshformer {

// libtorch made `allocate` lose its const and added `copy_data` in 2.x; whichever it declares is overridden.
class TensorAllocator final : public c10::Allocator {
 public:
  using Function = c10::DataPtr(size_t bytes);
  explicit TensorAllocator(Function* function) : function_(function) {}
  c10::DataPtr allocate(size_t bytes) const { return function_(bytes); }
  c10::DataPtr allocate(size_t bytes) { return function_(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }

 private:
  Function* function_;
};

}  // namespace lshformer
