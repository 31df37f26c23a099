// f(a) · b of rows [a b], with gradients (kernels/gated.h).
#pragma once
#include "kernels/functions.h"
#include "ops/torch.h"

namespace lshformer {

// x: [rows, 2 · columns], float32 → [rows, columns].
torch::Tensor GatedProduct(UnaryFunction function, const torch::Tensor& x);
// The same through torch alone, any floating type: the oracle.
torch::Tensor GatedProductReference(UnaryFunction function, const torch::Tensor& x);

}  // namespace lshformer
