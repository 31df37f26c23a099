// Products of fp32 matrices through oneDNN.
//
//   c[m, n] = Σ_k a[m, k] · b[k, n] (+ bias[n]) (+ c[m, n])
//
// A row of c depends on that row of a alone: not on how many rows the call has, where the row stands, nor on the number
// of threads, bit for bit. Where oneDNN's implementation does not promise that, rows go through it in blocks of one
// fixed size (RowBlock). The exception is `inner_is_tokens`, for weight gradients, where k runs over the tokens of the
// batch: equal threads give equal bits.
//
// Work memory: one scratchpad per calling thread (at most a few megabytes), because the library's own is shared.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lshformer {

// A matrix of `rows` × `columns` floats; element (i, j) at data[i · row_stride + j · column_stride]. One stride is 1.
struct MatrixView {
  const float* data = nullptr;
  int64_t row_stride = 0, column_stride = 1;
};

struct MatrixProduct {
  int64_t rows = 0, columns = 0, inner = 0;
  MatrixView a;                 // [rows, inner]
  MatrixView b;                 // [inner, columns]
  const float* bias = nullptr;  // [columns]
  float* c = nullptr;           // [rows, columns], row stride c_stride
  int64_t c_stride = 0;
  bool accumulate = false;       // add to c
  bool inner_is_tokens = false;  // a weight gradient: rows need not be independent of the call
};
void Multiply(const MatrixProduct& product);

// b reordered once into the layout that the implementation prefers.
class PackedMatrix {
 public:
  PackedMatrix(MatrixView b, int64_t inner, int64_t columns);
  ~PackedMatrix();
  // c = a · b (+ bias); a: [rows, inner] with row stride a_stride, c: [rows, columns] with row stride c_stride.
  void Multiply(int64_t rows, const float* a, int64_t a_stride, const float* bias, float* c, int64_t c_stride) const;

 private:
  struct Packed;
  std::unique_ptr<const Packed> packed_;
};

// Rows per call of an implementation of oneDNN, by its name: 0 = all at once, since its rows do not depend on each
// other.
int64_t RowBlock(const std::string& implementation);

}  // namespace lshformer
