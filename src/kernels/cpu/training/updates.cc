#include "kernels/updates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/training/updates.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class Update>
hn::Vec<D> Scaled(D d, const Update& u, const float* gradient, int64_t i) {
  return gradient == nullptr ? hn::Zero(d) : hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, u.gradient_scale));
}

// One vector (or, at the end of an array, a single lane) of both moments in place; g: the scaled gradient.
template <class D, class Update, class V = hn::Vec<D>>
void UpdateMoments(D d, const Update& u, V g, float* exp_avg, float* exp_avg_sq, V& average, V& square) {
  average = hn::MulAdd(g, hn::Set(d, u.one_minus_beta1), hn::Mul(hn::LoadU(d, exp_avg), hn::Set(d, u.beta1)));
  square =
      hn::MulAdd(hn::Mul(g, g), hn::Set(d, u.one_minus_beta2), hn::Mul(hn::LoadU(d, exp_avg_sq), hn::Set(d, u.beta2)));
  hn::StoreU(average, d, exp_avg);
  hn::StoreU(square, d, exp_avg_sq);
}

template <class D, class V = hn::Vec<D>>
void UpdateVector(D d, const AdamWUpdate& u, V g, float* parameter, float* exp_avg, float* exp_avg_sq) {
  V average, square;
  UpdateMoments(d, u, g, exp_avg, exp_avg_sq, average, square);
  const auto root = hn::MulAdd(hn::Sqrt(square), hn::Set(d, u.root_scale), hn::Set(d, u.epsilon));
  const auto kept = hn::Mul(hn::LoadU(d, parameter), hn::Set(d, u.keep));
  hn::StoreU(hn::NegMulAdd(hn::Set(d, u.step_size), hn::Div(average, root), kept), d, parameter);
}

// The gradient of a loss with the weights' L2 norm in it.
template <class D, class Update>
hn::Vec<D> ScaledAndDecayed(D d, const Update& u, float decay, const float* gradient, const float* parameter,
                            int64_t i) {
  return hn::MulAdd(hn::Set(d, decay), hn::LoadU(d, parameter + i), Scaled(d, u, gradient, i));
}

template <class D>
void UpdateVector(D d, const AdadeltaUpdate& u, hn::Vec<D> g, float* parameter, float* square_avg, float* acc_delta) {
  const auto rho = hn::Set(d, u.rho), rest = hn::Set(d, u.one_minus_rho), epsilon = hn::Set(d, u.epsilon);
  const auto square = hn::MulAdd(hn::Mul(g, g), rest, hn::Mul(hn::LoadU(d, square_avg), rho));
  const auto deltas = hn::LoadU(d, acc_delta);
  const auto ratio = hn::Div(hn::Sqrt(hn::Add(deltas, epsilon)), hn::Sqrt(hn::Add(square, epsilon)));
  const auto delta = hn::Mul(ratio, g);
  hn::StoreU(square, d, square_avg);
  hn::StoreU(hn::MulAdd(hn::Mul(delta, delta), rest, hn::Mul(deltas, rho)), d, acc_delta);
  hn::StoreU(hn::NegMulAdd(hn::Set(d, u.learning_rate), delta, hn::LoadU(d, parameter)), d, parameter);
}

// Calls visit(tag, i) for every whole vector, then for every element behind them.
template <class Visit>
void ForEachVector(int64_t count, const Visit& visit) {
  const hn::ScalableTag<float> wide;
  const hn::CappedTag<float, 1> single;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) visit(wide, i);
  for (; i < count; ++i) visit(single, i);
}

void Update(const AdamWUpdate& update, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq,
            int64_t count) {
  ForEachVector(count, [&](auto d, int64_t i) HWY_ATTR {
    UpdateVector(d, update, Scaled(d, update, gradient, i), parameter + i, exp_avg + i, exp_avg_sq + i);
  });
}

void DecayedUpdate(const AdamWUpdate& update, float decay, const float* gradient, float* parameter, float* exp_avg,
                   float* exp_avg_sq, int64_t count) {
  ForEachVector(count, [&](auto d, int64_t i) HWY_ATTR {
    UpdateVector(d, update, ScaledAndDecayed(d, update, decay, gradient, parameter, i), parameter + i, exp_avg + i,
                 exp_avg_sq + i);
  });
}

void Adadelta(const AdadeltaUpdate& update, const float* gradient, float* parameter, float* square_avg,
              float* acc_delta, int64_t count) {
  ForEachVector(count, [&](auto d, int64_t i) HWY_ATTR {
    UpdateVector(d, update, ScaledAndDecayed(d, update, update.decay, gradient, parameter, i), parameter + i,
                 square_avg + i, acc_delta + i);
  });
}

// u of LambUpdate
template <class D, class V = hn::Vec<D>>
V LambDirection(D d, const LambUpdate& u, V average, V square, V parameter) {
  const V scaled = hn::Div(average, hn::Add(hn::Sqrt(square), hn::Set(d, u.epsilon)));
  return hn::MulAdd(hn::Set(d, u.decay), parameter, scaled);
}

template <class D, class V = hn::Vec<D>>
V MomentsAndDirection(D d, const LambUpdate& u, V g, V parameter, float* exp_avg, float* exp_avg_sq) {
  V average, square;
  UpdateMoments(d, u, g, exp_avg, exp_avg_sq, average, square);
  return LambDirection(d, u, average, square, parameter);
}

// Adds the squares of one vector of doubles after another.
template <class D, class V = hn::Vec<D>>
void AddSquares(D d, const float* values, V& first, V& second) {
  const hn::Rebind<float, D> half;
  const auto x = hn::PromoteTo(d, hn::LoadU(half, values));
  const auto y = hn::PromoteTo(d, hn::LoadU(half, values + hn::Lanes(d)));
  first = hn::MulAdd(x, x, first);
  second = hn::MulAdd(y, y, second);
}

LambSquares LambMoments(const LambUpdate& update, const float* gradient, const float* parameter, float* exp_avg,
                        float* exp_avg_sq, int64_t count) {
  const hn::ScalableTag<float> wide;
  const hn::CappedTag<float, 1> single;
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide)), step = 2 * static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float directions[2 * hn::MaxLanes(d)];
  auto weights = hn::Zero(d), more_weights = hn::Zero(d), updates = hn::Zero(d), more_updates = hn::Zero(d);
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    for (int64_t j = 0; j < step; j += lanes) {  // once, but without SIMD
      const auto weight = hn::LoadU(wide, parameter + i + j);
      hn::StoreU(MomentsAndDirection(wide, update, Scaled(wide, update, gradient, i + j), weight, exp_avg + i + j,
                                     exp_avg_sq + i + j),
                 wide, directions + j);
    }
    AddSquares(d, parameter + i, weights, more_weights);
    AddSquares(d, directions, updates, more_updates);
  }
  LambSquares squares{hn::GetLane(hn::SumOfLanes(d, hn::Add(weights, more_weights))),
                      hn::GetLane(hn::SumOfLanes(d, hn::Add(updates, more_updates)))};
  for (; i < count; ++i) {
    const auto weight = hn::LoadU(single, parameter + i);
    const double u = hn::GetLane(
        MomentsAndDirection(single, update, Scaled(single, update, gradient, i), weight, exp_avg + i, exp_avg_sq + i));
    squares.parameter += static_cast<double>(parameter[i]) * static_cast<double>(parameter[i]);
    squares.update += u * u;
  }
  return squares;
}

template <class D>
void StepVector(D d, const LambUpdate& u, float step_size, const float* exp_avg, const float* exp_avg_sq,
                float* parameter) {
  const auto weight = hn::LoadU(d, parameter);
  const auto direction = LambDirection(d, u, hn::LoadU(d, exp_avg), hn::LoadU(d, exp_avg_sq), weight);
  hn::StoreU(hn::NegMulAdd(hn::Set(d, step_size), direction, weight), d, parameter);
}

void LambStep(const LambUpdate& update, float step_size, const float* exp_avg, const float* exp_avg_sq,
              float* parameter, int64_t count) {
  ForEachVector(count, [&](auto d, int64_t i)
                           HWY_ATTR { StepVector(d, update, step_size, exp_avg + i, exp_avg_sq + i, parameter + i); });
}

void MuonMomentum(const MuonUpdate& update, const float* gradient, float* momentum_buffer, float* direction,
                  int64_t count) {
  ForEachVector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto share = hn::Mul(Scaled(d, update, gradient, i), hn::Set(d, update.one_minus_momentum));
    const auto momentum = hn::Set(d, update.momentum);
    const auto buffer = hn::MulAdd(momentum, hn::LoadU(d, momentum_buffer + i), share);
    hn::StoreU(buffer, d, momentum_buffer + i);
    hn::StoreU(hn::MulAdd(momentum, buffer, share), d, direction + i);
  });
}

void AlongDirection(float keep, float step_size, const float* direction, float* parameter, int64_t count) {
  ForEachVector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::Set(d, keep), hn::LoadU(d, parameter + i));
    hn::StoreU(hn::NegMulAdd(hn::Set(d, step_size), hn::LoadU(d, direction + i), kept), d, parameter + i);
  });
}

template <class D>
void AverageVector(D d, float share, const float* weight, float* average) {
  const auto old = hn::LoadU(d, average);
  hn::StoreU(hn::MulAdd(hn::Set(d, share), hn::Sub(hn::LoadU(d, weight), old), old), d, average);
}

void Average(float share, const float* weight, float* average, int64_t count) {
  ForEachVector(count, [&](auto d, int64_t i) HWY_ATTR { AverageVector(d, share, weight + i, average + i); });
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
HWY_EXPORT(DecayedUpdate);
HWY_EXPORT(Adadelta);
HWY_EXPORT(LambMoments);
HWY_EXPORT(LambStep);
HWY_EXPORT(MuonMomentum);
HWY_EXPORT(AlongDirection);
HWY_EXPORT(Average);
HWY_EXPORT(Squares);

void UpdateAdamW(const AdamWUpdate& update, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq,
                 int64_t count) {
  HWY_DYNAMIC_DISPATCH(Update)(update, gradient, parameter, exp_avg, exp_avg_sq, count);
}

void UpdateAdam(const AdamWUpdate& update, float decay, const float* gradient, float* parameter, float* exp_avg,
                float* exp_avg_sq, int64_t count) {
  HWY_DYNAMIC_DISPATCH(DecayedUpdate)(update, decay, gradient, parameter, exp_avg, exp_avg_sq, count);
}

void UpdateAdadelta(const AdadeltaUpdate& update, const float* gradient, float* parameter, float* square_avg,
                    float* acc_delta, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Adadelta)(update, gradient, parameter, square_avg, acc_delta, count);
}

LambSquares UpdateLambMoments(const LambUpdate& update, const float* gradient, const float* parameter, float* exp_avg,
                              float* exp_avg_sq, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(LambMoments)(update, gradient, parameter, exp_avg, exp_avg_sq, count);
}

void StepLamb(const LambUpdate& update, float step_size, const float* exp_avg, const float* exp_avg_sq,
              float* parameter, int64_t count) {
  HWY_DYNAMIC_DISPATCH(LambStep)(update, step_size, exp_avg, exp_avg_sq, parameter, count);
}

void UpdateMuonMomentum(const MuonUpdate& update, const float* gradient, float* momentum_buffer, float* direction,
                        int64_t count) {
  HWY_DYNAMIC_DISPATCH(MuonMomentum)(update, gradient, momentum_buffer, direction, count);
}

void StepAlong(float keep, float step_size, const float* direction, float* parameter, int64_t count) {
  HWY_DYNAMIC_DISPATCH(AlongDirection)(keep, step_size, direction, parameter, count);
}

void UpdateAverage(float share, const float* weight, float* average, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Average)(share, weight, average, count);
}

double SumOfSquares(const float* values, int64_t count) { return HWY_DYNAMIC_DISPATCH(Squares)(values, count); }

}  // namespace lshformer
#endif  // HWY_ONCE
