#include "train/update_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/update_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
hn::Vec<D> Scaled(D d, const AdamWUpdate& u, const float* gradient, int64_t i) {
  return gradient == nullptr ? hn::Zero(d) : hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, u.gradient_scale));
}

// One vector (or, at the end of an array, a single lane) of the update; g: the scaled gradient.
template <class D, class V = hn::Vec<D>>
void UpdateVector(D d, const AdamWUpdate& u, V g, float* parameter, float* exp_avg, float* exp_avg_sq) {
  const auto average =
      hn::MulAdd(g, hn::Set(d, u.one_minus_beta1), hn::Mul(hn::LoadU(d, exp_avg), hn::Set(d, u.beta1)));
  const auto square =
      hn::MulAdd(hn::Mul(g, g), hn::Set(d, u.one_minus_beta2), hn::Mul(hn::LoadU(d, exp_avg_sq), hn::Set(d, u.beta2)));
  const auto root = hn::MulAdd(hn::Sqrt(square), hn::Set(d, u.root_scale), hn::Set(d, u.epsilon));
  const auto kept = hn::Mul(hn::LoadU(d, parameter), hn::Set(d, u.keep));
  hn::StoreU(average, d, exp_avg);
  hn::StoreU(square, d, exp_avg_sq);
  hn::StoreU(hn::NegMulAdd(hn::Set(d, u.step_size), hn::Div(average, root), kept), d, parameter);
}

void Update(const AdamWUpdate& update, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq,
            int64_t count) {
  const hn::ScalableTag<float> wide;
  const hn::CappedTag<float, 1> single;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    UpdateVector(wide, update, Scaled(wide, update, gradient, i), parameter + i, exp_avg + i, exp_avg_sq + i);
  for (; i < count; ++i)
    UpdateVector(single, update, Scaled(single, update, gradient, i), parameter + i, exp_avg + i, exp_avg_sq + i);
}

template <class D>
void AverageVector(D d, float share, const float* weight, float* average) {
  const auto old = hn::LoadU(d, average);
  hn::StoreU(hn::MulAdd(hn::Set(d, share), hn::Sub(hn::LoadU(d, weight), old), old), d, average);
}

void Average(float share, const float* weight, float* average, int64_t count) {
  const hn::ScalableTag<float> wide;
  const hn::CappedTag<float, 1> single;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) AverageVector(wide, share, weight + i, average + i);
  for (; i < count; ++i) AverageVector(single, share, weight + i, average + i);
}

double Squares(const float* values, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  static_assert(kSquaresPeriod % (2 * hn::MaxLanes(d)) == 0);
  auto even = hn::Zero(d), odd = hn::Zero(d);  // two chains hide the latency of the additions
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = hn::PromoteTo(d, hn::LoadU(half, values + i));
    const auto second = hn::PromoteTo(d, hn::LoadU(half, values + i + lanes));
    even = hn::MulAdd(first, first, even);
    odd = hn::MulAdd(second, second, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {

HWY_EXPORT(Update);
HWY_EXPORT(Average);
HWY_EXPORT(Squares);

void UpdateAdamW(const AdamWUpdate& update, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq,
                 int64_t count) {
  HWY_DYNAMIC_DISPATCH(Update)(update, gradient, parameter, exp_avg, exp_avg_sq, count);
}

void UpdateAverage(float share, const float* weight, float* average, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Average)(share, weight, average, count);
}

double SumOfSquares(const float* values, int64_t count) { return HWY_DYNAMIC_DISPATCH(Squares)(values, count); }

}  // namespace lshformer
#endif  // HWY_ONCE
