#include "ops/gather_rows.h"

#include "base/error.h"
#include "kernels/gather.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GatherRowsOp : torch::autograd::Function<GatherRowsOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const std::vector<int32_t>& rows) {
    torch::Tensor y = torch::empty({std::ssize(rows), x.size(1)}, x.options());
    PickRows(x.data_ptr<float>(), x.size(1), rows, y.data_ptr<float>());
    context->saved_data["rows"] = x.size(0);
    Keep(context, rows);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const torch::Tensor grad_y = grads[0].contiguous();
    const int64_t source_rows = context->saved_data["rows"].toInt(), columns = grad_y.size(1);
    torch::Tensor grad_x = torch::empty({source_rows, columns}, grad_y.options());
    SumPickedRows(grad_y.data_ptr<float>(), columns, GetKept<std::vector<int32_t>>(context), source_rows,
                  grad_x.data_ptr<float>());
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
