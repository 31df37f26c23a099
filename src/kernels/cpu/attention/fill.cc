// The share of keys that a query does not see (fill zero and mean), in O(tokens · head_dim): totals minus what was
// seen. Totals are summed in double, so that taking a bucket off the whole loses nothing that float could hold.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/executor.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/fill.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

using Doubles = hn::ScalableTag<double>;
using HalfFloats = hn::Rebind<float, Doubles>;
constexpr int kDoubleLanes = static_cast<int>(HWY_LANES(double));

// sums[k] += weight · row[k]
HWY_INLINE void AddRow(const float* HWY_RESTRICT row, double weight, int count, double* HWY_RESTRICT sums) {
  const Doubles d;
  const auto factor = hn::Set(d, weight);
  int k = 0;
  for (; k + kDoubleLanes <= count; k += kDoubleLanes) {
    hn::Store(hn::MulAdd(factor, hn::PromoteTo(d, hn::LoadU(HalfFloats(), row + k)), hn::Load(d, sums + k)), d,
              sums + k);
  }
  for (; k < count; ++k) sums[k] += weight * row[k];
}

double DotInDouble(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int count) {
  const Doubles d;
  auto sum = hn::Zero(d);
  int k = 0;
  for (; k + kDoubleLanes <= count; k += kDoubleLanes) {
    sum = hn::MulAdd(hn::PromoteTo(d, hn::LoadU(HalfFloats(), a + k)), hn::PromoteTo(d, hn::LoadU(HalfFloats(), b + k)),
                     sum);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; k < count; ++k) total += static_cast<double>(a[k]) * b[k];
  return total;
}

// Adds rows [begin, end) of an order, weighted by position where weights are given.
template <class Tensor>
void AddRows(const Tensor& rows, const UnitWork& work, const int32_t* order, int32_t begin, int32_t end,
             const float* weight, double* sums) {
  const auto position_of = [order](int32_t i) { return order ? order[i] : i; };
  for (int32_t i = begin; i < end; ++i) {
    const int32_t position = position_of(i);
    if (i + kRowsAhead < end) PrefetchRow(rows.at(position_of(i + kRowsAhead)), work.head_dim());
    AddRow(rows.at(position), weight ? static_cast<double>(weight[position]) : 1.0, work.head_dim(), sums);
  }
}

double* Sums(const UnitWork& work, Slot slot, int64_t rows) {
  double* sums = work.memory->Get<double>(slot, rows * work.padded());
  std::fill_n(sums, rows * work.padded(), 0.0);
  return sums;
}

const TilePass& FirstPass(const UnitWork& work) { return work.plan->passes[work.unit->pass_begin]; }

// Every row of a bucket sees the same keys, those of its bucket.
bool SeesItsBucket(const UnitWork& work) {
  const TilePass& pass = FirstPass(work);
  return work.unit->pass_end - work.unit->pass_begin == 1 && pass.run_end > pass.run_begin;
}

void FillScores(UnitWork& work) {
  const int32_t length = work.unit->length;
  float* score = work.memory->Get<float>(Slot::kFillScore, length);
  for (int32_t i = 0; i < length; ++i) {
    score[i] = work.seen()[i] < length ? 0.0f : kNothing;
    if (!work.mean_key || work.seen()[i] == length) continue;
    const double dot = DotInDouble(work.query.at(i), work.mean_key, work.head_dim());
    score[i] = static_cast<float>(dot * work.call->scale * kLog2E);
  }
  work.fill_score = score;
}

}  // namespace

void PrepareFill(UnitWork& work) {
  if (work.unit->fill == Fill::kNone) return;
  const int32_t length = work.unit->length;
  const int padded = work.padded();
  if (work.unit->fill == Fill::kMean) {
    double* sums = Sums(work, Slot::kSums, 1);
    AddRows(work.key, work, nullptr, 0, length, nullptr, sums);
    float* mean = work.memory->Get<float>(Slot::kMeanKey, padded);
    for (int k = 0; k < padded; ++k) mean[k] = static_cast<float>(sums[k] / length);
    work.mean_key = mean;
  }
  FillScores(work);
  work.subtract_fill = !SeesItsBucket(work);
  const TilePass& pass = FirstPass(work);
  const int64_t runs = work.subtract_fill ? 0 : pass.run_end - pass.run_begin;
  double* total = Sums(work, Slot::kSums, 2);
  double* sum = total + padded;  // of one bucket: to keep all would take more memory than all else
  AddRows(work.value, work, nullptr, 0, length, nullptr, total);
  float* unseen = work.memory->Get<float>(Slot::kUnseenValues, std::max<int64_t>(1, runs) * padded);
  if (runs == 0) std::copy_n(total, padded, unseen);
  for (int64_t r = 0; r < runs; ++r) {
    const BucketRun& run = work.plan->runs[pass.run_begin + r];
    std::fill_n(sum, padded, 0.0);
    AddRows(work.value, work, work.plan->Order(pass.column_order), run.column_begin, run.column_end, nullptr, sum);
    for (int k = 0; k < padded; ++k) unseen[r * padded + k] = static_cast<float>(total[k] - sum[k]);
  }
  work.unseen_values = unseen;
}

void PrepareFillBackward(UnitWork& work) {
  if (work.unit->fill == Fill::kNone) return;
  const int32_t length = work.unit->length;
  float* weight = work.memory->Get<float>(Slot::kFillWeight, length);
  for (int32_t i = 0; i < length; ++i) {
    weight[i] = work.seen()[i] < length ? std::exp2(work.fill_score[i] - work.lse(i) * kLog2E) : 0.0f;
  }
  work.fill_weight = weight;
  if (work.unit->fill == Fill::kMean) {
    work.score_gradient_sum = work.memory->Get<float>(Slot::kScoreGradientSum, length);
    std::fill_n(work.score_gradient_sum, length, 0.0f);
  }
}

namespace {

// dV_j += Σ w_i dO_i over the queries that do not see j.
void AddUnseenValueGradients(const UnitWork& work) {
  const int32_t length = work.unit->length;
  const int head_dim = work.head_dim(), padded = work.padded();
  const TilePass& pass = FirstPass(work);
  const int64_t runs = work.subtract_fill ? 0 : pass.run_end - pass.run_begin;
  double* total = Sums(work, Slot::kSums, 2);
  double* sum = total + padded;  // over the queries of one bucket
  const UnitTensor<const float>& grad_out = work.grad_out;
  AddRows(grad_out, work, nullptr, 0, length, work.fill_weight, total);
  float* share = work.memory->Get<float>(Slot::kUnseenValues, padded);
  const int32_t* order = runs == 0 ? nullptr : work.plan->Order(pass.column_order);
  const auto add = [&](int32_t begin, int32_t end, const double* seen) {
    for (int k = 0; k < padded && begin < end; ++k) share[k] = static_cast<float>(total[k] - (seen ? seen[k] : 0.0));
    for (int32_t c = begin; c < end; ++c) {
      AddScaled(share, 1.0f, head_dim, work.grad_value.at(order ? order[c] : c));
    }
  };
  int32_t column = 0;
  for (int64_t r = 0; r < runs; ++r) {
    const BucketRun& run = work.plan->runs[pass.run_begin + r];
    add(column, run.column_begin, nullptr);
    std::fill_n(sum, padded, 0.0);
    AddRows(grad_out, work, work.plan->Order(pass.row_order), run.row_begin, run.row_end, work.fill_weight, sum);
    add(run.column_begin, run.column_end, sum);
    column = run.column_end;
  }
  add(column, length, nullptr);
}

}  // namespace

void FinishFillBackward(const UnitWork& work) {
  if (work.unit->fill == Fill::kNone) return;
  AddUnseenValueGradients(work);
  if (work.unit->fill != Fill::kMean) return;
  // The gradients of a row's scores add up to 0, so the unseen pairs' is minus the seen pairs' sum.
  const int32_t length = work.unit->length;
  const int head_dim = work.head_dim(), padded = work.padded();
  double* sums = Sums(work, Slot::kSums, 1);
  for (int32_t i = 0; i < length; ++i) {
    if (work.seen()[i] == length) continue;
    const double gradient = -static_cast<double>(work.score_gradient_sum[i]) * work.call->scale;
    AddScaled(work.mean_key, static_cast<float>(gradient), head_dim, work.grad_query.at(i));
    AddRow(work.query.at(i), gradient, head_dim, sums);
  }
  float* share = work.memory->Get<float>(Slot::kUnseenValues, padded);
  for (int k = 0; k < padded; ++k) share[k] = static_cast<float>(sums[k] / length);
  for (int32_t j = 0; j < length; ++j) AddScaled(share, 1.0f, head_dim, work.grad_key.at(j));
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(PrepareFill);
HWY_EXPORT(PrepareFillBackward);
HWY_EXPORT(FinishFillBackward);
void PrepareFill(UnitWork& work) { HWY_DYNAMIC_DISPATCH(PrepareFill)(work); }
void PrepareFillBackward(UnitWork& work) { HWY_DYNAMIC_DISPATCH(PrepareFillBackward)(work); }
void FinishFillBackward(const UnitWork& work) { HWY_DYNAMIC_DISPATCH(FinishFillBackward)(work); }
}  // namespace lshformer
#endif
