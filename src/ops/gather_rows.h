// Rows of a table picked by number: what was computed once for each distinct word of a batch, for each of its tokens.
//
//   y[i] = x[rows[i]]
#pragma once
#include <cstdint>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

// x: [N, d], 0 ≤ rows[i] < N → [n, d]. float32. The gradient of a row of x is the sum over its i in ascending order:
// the same bits for any number of threads.
torch::Tensor GatherRows(const torch::Tensor& x, const std::vector<int32_t>& rows);
// For any floating type: the oracle.
torch::Tensor GatherRowsReference(const torch::Tensor& x, const std::vector<int32_t>& rows);

}  // namespace lshformer
