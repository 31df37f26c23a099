// Activation functions and their derivatives, element by element, on plain pointers.
//
//   kGelu     x·Φ(x), Φ the normal distribution function, with a relative error ≤ 2e-7
//   kGeluNew  ½x(1 + tanh(√(2/π)(x + 0.044715x³)))
//   kRelu     max(x, 0), with derivative 0 at 0
//   kSilu     x·σ(x)
//   kSigmoid  σ(x) = 1 / (1 + exp(−x))
//
// An element's result depends on that element alone: neither on where it stands nor on the number of threads, bit for
// bit. Finite for all finite x; f(NaN) is NaN, f'(NaN) need not be. Throws nothing. Work memory: none.
#pragma once
#include <span>

namespace lshformer {

enum class UnaryFunction { kGelu, kGeluNew, kRelu, kTanh, kSilu, kSigmoid };

// out = f(x). out may be x.
void ApplyFunction(UnaryFunction function, std::span<const float> x, float* out);
// grad_x = grad_out · f′(x). grad_x may be grad_out.
void ApplyDerivative(UnaryFunction function, std::span<const float> x, const float* grad_out, float* grad_x);

}  // namespace lshformer
