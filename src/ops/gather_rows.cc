#include "ops/gather_rows.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kRows = 64;  // a piece of work

// For each row of the source the places where it went, ascending: places[starts[row]] to places[starts[row + 1]].
struct Places {
  Places(const std::vector<int32_t>& rows, int64_t source_rows) : starts(source_rows + 1), places(rows.size()) {
    for (const int32_t row : rows) ++starts[row + 1];
    for (int64_t row = 0; row < source_rows; ++row) starts[row + 1] += starts[row];
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (size_t i = 0; i < rows.size(); ++i) places[next[rows[i]]++] = static_cast<int64_t>(i);
  }
  std::span<const int64_t> Of(int64_t row) const {
    return std::span(places).subspan(starts[row], starts[row + 1] - starts[row]);
  }
  std::vector<int64_t> starts, places;
};

void SumRowsAt(const float* from, int64_t columns, std::span<const int64_t> rows, float* __restrict sum) {
  if (rows.empty()) {
    std::fill_n(sum, columns, 0.0f);
    return;
  }
  std::copy_n(from + rows[0] * columns, columns, sum);
  for (const int64_t row : rows.subspan(1)) {
    const float* __restrict added = from + row * columns;
    for (int64_t c = 0; c < columns; ++c) sum[c] += added[c];
  }
}

struct GatherRowsOp : torch::autograd::Function<GatherRowsOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const std::vector<int32_t>& rows) {
    const int64_t count = std::ssize(rows), columns = x.size(1);
    torch::Tensor y = torch::empty({count, columns}, x.options());
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    ParallelFor(count, kRows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::copy_n(from + rows[i] * columns, columns, to + i * columns);
    });
    context->saved_data["rows"] = x.size(0);
    Keep(context, rows);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const torch::Tensor grad_y = grads[0].contiguous();
    const int64_t source_rows = context->saved_data["rows"].toInt(), columns = grad_y.size(1);
    const Places where(GetKept<std::vector<int32_t>>(context), source_rows);
    torch::Tensor grad_x = torch::empty({source_rows, columns}, grad_y.options());
    const float* from = grad_y.data_ptr<float>();
    float* to = grad_x.data_ptr<float>();
    ParallelFor(source_rows, kRows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) SumRowsAt(from, columns, where.Of(row), to + row * columns);
    });
    return {grad_x, {}};
  }
};

void Check(const torch::Tensor& x, const std::vector<int32_t>& rows) {
  if (x.dim() != 2) Fail("gather rows: input {}, expected [rows, columns]", c10::str(x.sizes()));
  for (const int32_t row : rows)
    if (row < 0 || row >= x.size(0)) Fail("gather rows: row {} of {}", row, x.size(0));
}

}  // namespace

torch::Tensor GatherRows(const torch::Tensor& x, const std::vector<int32_t>& rows) {
  Check(x, rows);
  return GatherRowsOp::apply(x.contiguous(), rows);
}

torch::Tensor GatherRowsReference(const torch::Tensor& x, const std::vector<int32_t>& rows) {
  Check(x, rows);
  return x.index_select(0, torch::tensor(rows, torch::kInt32));
}

}  // namespace lshformer
