// Functions of rows whose backward computes them again, instead of keeping what they stored on the way.
//
// The second time gives the bits of the first: a kernel's result is a function of its input and the number of threads,
// dropout and hash planes are drawn from counters (base/philox.h), buckets are made of the input.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

struct RowCall {
  int64_t begin = 0;   // the first row of x among all rows
  bool again = false;  // for the backward: what is counted or recorded was so the first time
};

struct RowFunction {
  // x: [n, in] → [n, out], or, without pieces, → any number of rows. Called again in the backward, when whoever called
  // the forward may be gone.
  std::function<torch::Tensor(const torch::Tensor& x, const RowCall& call)> run;
  std::vector<torch::Tensor> parameters;  // leaves that `run` has gradients by, beside x
  // Where no row looks at another: rows a call, which bounds what `run` stores; 0: all at once. Changes no bit of the
  // values and of the gradient by x; gradients by parameters are sums over the pieces, equal to rounding.
  int64_t chunk = 0;
};

// The values alone. Linear maps have their own kernels where gradients are off (ops/linear.h); to see the bits that
// Differentiate will see, call this with gradients on.
torch::Tensor Evaluate(const RowFunction& function, const torch::Tensor& x);

struct RowGradients {
  torch::Tensor value;                    // function(x), once more
  torch::Tensor x;                        // as x
  std::vector<torch::Tensor> parameters;  // undefined where the function does not use one
};
// function(x) and the gradients of Σ function(x) · grad; what is stored in between is gone on return.
RowGradients Differentiate(const RowFunction& function, const torch::Tensor& x, const torch::Tensor& grad);

// function(x) in a graph that keeps x alone.
torch::Tensor Recomputed(RowFunction function, const torch::Tensor& x);

}  // namespace lshformer
