// Activation functions of one vector, of one Highway target.
#if defined(LSHFORMER_KERNELS_CPU_ROWS_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LSHFORMER_KERNELS_CPU_ROWS_FUNCTIONS_INL_H_
#undef LSHFORMER_KERNELS_CPU_ROWS_FUNCTIONS_INL_H_
#else
#define LSHFORMER_KERNELS_CPU_ROWS_FUNCTIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "kernels/cpu/rows/rows-inl.h"
#include "kernels/cpu/vector_math-inl.h"
#include "kernels/functions.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

// ½·erfc(z), z ≥ 0, given exp(−z²): t·exp(−z² + P(t)), t = 1/(1 + z/2) (Press et al., Numerical Recipes, §6.2; relative
// error ≤ 1.2e-7 for all z).
HWY_INLINE Float HalfErfc(Float z) {
  const Float t = hn::Div(hn::Set(kTag, 1.0f), hn::MulAdd(z, hn::Set(kTag, 0.5f), hn::Set(kTag, 1.0f)));
  constexpr float kCoefficients[] = {-0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f,
                                     0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f};
  Float p = hn::Set(kTag, 0.17087277f);
  for (const float coefficient : kCoefficients) p = hn::MulAdd(p, t, hn::Set(kTag, coefficient));
  return hn::Mul(hn::Mul(hn::Set(kTag, 0.5f), t), hn::Exp(kTag, hn::NegMulAdd(z, z, p)));
}

// Φ(x), the normal distribution function.
HWY_INLINE Float NormalCdf(Float x) {
  const Float tail = HalfErfc(hn::Mul(hn::Abs(x), hn::Set(kTag, 0.70710678118654752f)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(kTag)), tail, hn::Sub(hn::Set(kTag, 1.0f), tail));
}

// Φ(x) as far as bfloat16 keeps it, within 2⁻¹⁰ of itself (2⁻¹² with AVX-512's reciprocal): ½·erfc(z) = t·2^(Q(t) −
// z²·log₂e) with t as above and Q of degree 5 (minimax for z ≤ 6.5, 2⁻¹⁷; beyond, the function is 0 beside any number
// it is multiplied with).
HWY_INLINE Float NormalCdfForBFloat16(Float x) {
  constexpr float kLog2E = 1.44269504f;
  const Float z = hn::Mul(hn::Abs(x), hn::Set(kTag, 0.70710678118654752f));
  const Float t = hn::ApproximateReciprocal(hn::MulAdd(z, hn::Set(kTag, 0.5f), hn::Set(kTag, 1.0f)));
  constexpr float kCoefficients[] = {-1.0170307f, 0.67653537f, 0.37213784f, 1.4671583f, -2.8270586f};
  Float q = hn::Set(kTag, 0.32826859f);
  for (const float coefficient : kCoefficients) q = hn::MulAdd(q, t, hn::Set(kTag, coefficient));
  const Float exponent = hn::NegMulAdd(hn::Mul(z, hn::Set(kTag, kLog2E)), z, q);
  const Float tail = hn::Mul(t, Exp2ForBFloat16(kTag, exponent));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(kTag)), tail, hn::Sub(hn::Set(kTag, 1.0f), tail));
}

// x·Φ(x) for numbers that are rounded to 8 bits next: within 2⁻¹² of it, and within 2⁻¹¹·|x|.
// Φ(x) = ½ + z·P(z²), z = x within [−4, 4], P of degree 6 (minimax of the product's error with Φ(−4) = 0).
HWY_INLINE Float GeluForBytes(Float x) {
  const Float z = hn::Max(hn::Min(x, hn::Set(kTag, 4.0f)), hn::Set(kTag, -4.0f)), square = hn::Mul(z, z);
  constexpr float kCoefficients[] = {-1.59091792e-6f, 4.78049224e-5f,  -8.12579354e-4f,
                                     8.76555778e-3f,  -6.45584315e-2f, 3.97873074e-1f};
  Float p = hn::Set(kTag, 2.26294894e-8f);
  for (const float coefficient : kCoefficients) p = hn::MulAdd(p, square, hn::Set(kTag, coefficient));
  const Float cdf = hn::MulAdd(p, z, hn::Set(kTag, 0.5f));
  return hn::Mul(x, hn::Min(hn::Max(cdf, hn::Zero(kTag)), hn::Set(kTag, 1.0f)));
}

// φ(x), its density.
HWY_INLINE Float NormalDensity(Float x) {
  return hn::Mul(hn::Set(kTag, 0.39894228040143268f), hn::Exp(kTag, hn::Mul(hn::Mul(x, x), hn::Set(kTag, -0.5f))));
}

// Twice the argument of gelu_new's tanh, and its derivative: ½(1 + tanh y) = σ(2y). Beyond 40 the function is x or 0 to
// the last bit, and x³ must not overflow.
constexpr float kTwoRootTwoOverPi = 1.5957691216057308f, kCubic = 0.044715f;
HWY_INLINE Float Bounded(Float x) { return hn::Max(hn::Min(x, hn::Set(kTag, 40.0f)), hn::Set(kTag, -40.0f)); }
HWY_INLINE Float Cubic(Float x) {
  const Float inner = hn::MulAdd(hn::Mul(x, x), hn::Set(kTag, kCubic), hn::Set(kTag, 1.0f));
  return hn::Mul(hn::Mul(x, inner), hn::Set(kTag, kTwoRootTwoOverPi));
}
HWY_INLINE Float CubicDerivative(Float x) {
  const Float inner = hn::MulAdd(hn::Mul(x, x), hn::Set(kTag, 3 * kCubic), hn::Set(kTag, 1.0f));
  return hn::Mul(inner, hn::Set(kTag, kTwoRootTwoOverPi));
}

template <UnaryFunction function>
HWY_INLINE Float Value(Float x) {
  if constexpr (function == UnaryFunction::kGelu) return hn::Mul(x, NormalCdf(x));
  if constexpr (function == UnaryFunction::kGeluNew) return hn::Mul(x, Logistic(Cubic(Bounded(x))).value);
  if constexpr (function == UnaryFunction::kRelu)
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kTag)), x);  // NaN stays NaN
  if constexpr (function == UnaryFunction::kTanh) return hn::Tanh(kTag, x);
  if constexpr (function == UnaryFunction::kSilu) return hn::Mul(x, Logistic(x).value);
  if constexpr (function == UnaryFunction::kSigmoid) return hn::IfThenElse(hn::IsNaN(x), x, Logistic(x).value);
}

// What is rounded to bfloat16 next.
template <UnaryFunction function>
HWY_INLINE Float ValueForBFloat16(Float x) {
  if constexpr (function == UnaryFunction::kGelu) return hn::Mul(x, NormalCdfForBFloat16(x));
  return Value<function>(x);
}

// What is rounded to 8 bits next.
template <UnaryFunction function>
HWY_INLINE Float ValueForBytes(Float x) {
  if constexpr (function == UnaryFunction::kGelu) return GeluForBytes(x);
  return Value<function>(x);
}

template <UnaryFunction function>
HWY_INLINE Float Derivative(Float x) {
  const Float one = hn::Set(kTag, 1.0f);
  if constexpr (function == UnaryFunction::kGelu) return hn::MulAdd(x, NormalDensity(x), NormalCdf(x));
  if constexpr (function == UnaryFunction::kGeluNew) {
    const Float bounded = Bounded(x);
    const Logistic sigma(Cubic(bounded));
    return hn::MulAdd(bounded, hn::Mul(sigma.slope, CubicDerivative(bounded)), sigma.value);
  }
  if constexpr (function == UnaryFunction::kRelu) return hn::IfThenElseZero(hn::Gt(x, hn::Zero(kTag)), one);
  if constexpr (function == UnaryFunction::kTanh) {
    const Float y = hn::Tanh(kTag, x);
    return hn::NegMulAdd(y, y, one);
  }
  if constexpr (function == UnaryFunction::kSilu) {
    const Logistic sigma(x);
    return hn::MulAdd(x, sigma.slope, sigma.value);
  }
  if constexpr (function == UnaryFunction::kSigmoid) return Logistic(x).slope;
}

// Calls visit with the function as a type.
template <class Visit>
void WithFunction(UnaryFunction function, const Visit& visit) {
  using F = UnaryFunction;
  switch (function) {
    case F::kGelu:
      return visit(std::integral_constant<F, F::kGelu>());
    case F::kGeluNew:
      return visit(std::integral_constant<F, F::kGeluNew>());
    case F::kRelu:
      return visit(std::integral_constant<F, F::kRelu>());
    case F::kTanh:
      return visit(std::integral_constant<F, F::kTanh>());
    case F::kSilu:
      return visit(std::integral_constant<F, F::kSilu>());
    case F::kSigmoid:
      return visit(std::integral_constant<F, F::kSigmoid>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#endif
