// oneDNN's products as this program uses them: made once for each signature, run on memory as it lies.
#pragma once
#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels/precision.h"

namespace lshformer {

using Desc = dnnl::memory::desc;
using Type = dnnl::memory::data_type;

// What a product's factors, bias and result are made of.
struct Types {
  Type a, b, c;
  int64_t a_bytes;  // of an element; those of c have 4
};
inline Types TypesOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kBFloat16:
      return {Type::bf16, Type::bf16, Type::f32, 2};
    case Precision::kInt8:
      return {Type::u8, Type::s8, Type::s32, 1};
  }
  return {Type::f32, Type::f32, Type::f32, 4};
}
inline constexpr int64_t kResultBytes = 4;

const dnnl::engine& Engine();
dnnl::stream& Stream();  // of the calling thread
bool OneDnnHas(dnnl::cpu_isa isa);

// Inside, oneDNN works with so many threads. It divides the work when a primitive is made, and counts on finding as
// many when it runs. OpenMP keeps the number for each thread of the program apart, and a thread that its caller has
// started knows nothing of SetThreads; so it is said each time.
class WithThreads {
 public:
#ifdef _OPENMP
  explicit WithThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~WithThreads() { omp_set_num_threads(before_); }

 private:
  int before_;
#else
  explicit WithThreads(int) {}
#endif
};

// Layouts that factors were packed in, by number. A packed factor carries its layout: asked twice, oneDNN may prefer
// two different ones for the same shape, by how many threads it sees at the moment (bfloat16 on AMX does).
inline constexpr int kStrided = -1, kPreferred = -2;
int LayoutNumber(const Desc& layout);
Desc LayoutOf(int number);

struct Signature {
  Precision precision;
  int64_t rows, columns, inner, a_row, a_column, b_row, b_column, c_stride;
  bool bias, accumulate;
  int layout;  // of b: kStrided, kPreferred, or the number of the layout that it was packed in (strides of b are 0)
  int threads;
  auto operator<=>(const Signature&) const = default;
};

struct Primitive {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul matmul;
  int64_t row_block;
  int threads;
};

Desc Strided(Type type, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);
dnnl::matmul::primitive_desc Describe(const Signature& signature);
std::shared_ptr<const Primitive> FindPrimitive(const Signature& signature);
void Execute(const Primitive& primitive, const void* a, const void* b, const float* bias, void* c);

}  // namespace lshformer
