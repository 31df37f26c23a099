// A gradient as the optimizer reads it: every element, or the rows of a matrix that are not zero. Reading the second as
// the first gives the same bits, and no dense tensor is ever made for it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

class Gradient {
 public:
  // float32; undefined, dense, or sparse by rows (torch's COO layout with one sparse dimension). Of rows that stand
  // there several times the sum counts, added up in their order. Error for any other layout.
  explicit Gradient(const torch::Tensor& gradient);

  bool defined() const { return values_.defined(); }

  // Of one by rows: those that are there, each once and ascending, and their values.
  const torch::Tensor& rows() const { return rows_; }
  torch::Tensor row_values() const { return values_.narrow(0, 0, rows_.numel()); }

  // Of the elements [begin, end), as if all were there.
  double SumOfSquares(int64_t begin, int64_t end) const;

  // Of the elements [begin, end), where end > begin: they themselves, nullptr where all are 0, or `room` filled with
  // them, rows and the zeros between.
  const float* InOnePiece(int64_t begin, int64_t end, std::vector<float>& room) const;

  // Calls visit(place, values, count) for pieces of the elements [begin, end), in order; values: nullptr where all of
  // the piece is 0.
  template <class Visit>
  void ForEachPiece(int64_t begin, int64_t end, const Visit& visit) const {
    const float* values = values_.data_ptr<float>();
    if (!rows_.defined()) return visit(begin, values + begin, end - begin);
    const int64_t *first = rows_.data_ptr<int64_t>(), *last = first + rows_.numel();
    for (const int64_t* row = std::lower_bound(first, last, begin / columns_); begin < end; ++row) {
      const int64_t row_begin = row == last ? end : *row * columns_, row_end = row_begin + columns_;
      if (const int64_t stop = std::min(end, row_begin); begin < stop) {
        visit(begin, nullptr, stop - begin);
        begin = stop;
      }
      if (const int64_t stop = std::min(end, row_end); begin < stop) {
        visit(begin, values + (row - first) * columns_ + (begin - row_begin), stop - begin);
        begin = stop;
      }
    }
  }

 private:
  void AddUpRows();

  torch::Tensor values_;  // contiguous: as the parameter, or [rows, …]
  torch::Tensor rows_;    // [rows], ascending, each once; undefined: values_ has every row
  int64_t columns_ = 0;   // elements of a row
};

// Sparse by rows, as libtorch has it: rows [1, count] ascending, each once; values [count, …].
torch::Tensor RowGradient(const torch::Tensor& rows, const torch::Tensor& values, torch::IntArrayRef sizes);
// One that is sparse by rows with every row once, ascending.
torch::Tensor WithRowsOnce(const torch::Tensor& gradient);
// a + b, both sparse by rows.
torch::Tensor AddRowGradients(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace lshformer
