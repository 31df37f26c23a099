#include "kernels/skip_gram.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/training/skip_gram.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kRowMultiple>;
using Vector = hn::Vec<Tag>;

// Of 1 to 4 rows at once: the row is loaded once for all of them.
template <int kRows>
void Products(const float* HWY_RESTRICT row, const float* const* others, int64_t length, float* products) {
  constexpr Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t i = 0; i < length; i += lanes) {
    const Vector value = hn::LoadU(d, row + i);
    sum0 = hn::MulAdd(value, hn::LoadU(d, others[0] + i), sum0);
    if constexpr (kRows > 1) sum1 = hn::MulAdd(value, hn::LoadU(d, others[1] + i), sum1);
    if constexpr (kRows > 2) sum2 = hn::MulAdd(value, hn::LoadU(d, others[2] + i), sum2);
    if constexpr (kRows > 3) sum3 = hn::MulAdd(value, hn::LoadU(d, others[3] + i), sum3);
  }
  products[0] = hn::GetLane(hn::SumOfLanes(d, sum0));
  if constexpr (kRows > 1) products[1] = hn::GetLane(hn::SumOfLanes(d, sum1));
  if constexpr (kRows > 2) products[2] = hn::GetLane(hn::SumOfLanes(d, sum2));
  if constexpr (kRows > 3) products[3] = hn::GetLane(hn::SumOfLanes(d, sum3));
}

void RowProducts(const float* row, const float* const* others, int64_t count, int64_t length, float* products) {
  for (; count >= 4; count -= 4, others += 4, products += 4) Products<4>(row, others, length, products);
  if (count == 3) Products<3>(row, others, length, products);
  if (count == 2) Products<2>(row, others, length, products);
  if (count == 1) Products<1>(row, others, length, products);
}

// Of 1 to 4 rows at once: the sum is loaded and stored once for all of them.
template <int kRows>
void AddRows(const float* const* rows, const float* factors, int64_t stride, int64_t length, float* HWY_RESTRICT sum) {
  constexpr Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = [&](int j) { return hn::Set(d, j < kRows ? factors[j * stride] : 0.0f); };
  const Vector factor0 = factor(0), factor1 = factor(1), factor2 = factor(2), factor3 = factor(3);
  for (int64_t i = 0; i < length; i += lanes) {
    Vector value = hn::MulAdd(factor0, hn::LoadU(d, rows[0] + i), hn::LoadU(d, sum + i));
    if constexpr (kRows > 1) value = hn::MulAdd(factor1, hn::LoadU(d, rows[1] + i), value);
    if constexpr (kRows > 2) value = hn::MulAdd(factor2, hn::LoadU(d, rows[2] + i), value);
    if constexpr (kRows > 3) value = hn::MulAdd(factor3, hn::LoadU(d, rows[3] + i), value);
    hn::StoreU(value, d, sum + i);
  }
}

void AddWeightedRows(const float* const* rows, const float* factors, int64_t stride, int64_t count, int64_t length,
                     float* sum) {
  for (; count >= 4; count -= 4, rows += 4, factors += 4 * stride) AddRows<4>(rows, factors, stride, length, sum);
  if (count == 3) AddRows<3>(rows, factors, stride, length, sum);
  if (count == 2) AddRows<2>(rows, factors, stride, length, sum);
  if (count == 1) AddRows<1>(rows, factors, stride, length, sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {

HWY_EXPORT(RowProducts);
HWY_EXPORT(AddWeightedRows);

void RowProducts(const float* row, const float* const* others, int64_t count, int64_t length, float* products) {
  HWY_DYNAMIC_DISPATCH(RowProducts)(row, others, count, length, products);
}
void AddWeightedRows(const float* const* rows, const float* factors, int64_t stride, int64_t count, int64_t length,
                     float* sum) {
  HWY_DYNAMIC_DISPATCH(AddWeightedRows)(rows, factors, stride, count, length, sum);
}

void LogisticSteps(float rate, int64_t count, float* steps) {
  for (int64_t j = 0; j < count; ++j) {
    const float label = j == 0 ? 1.0f : 0.0f;
    steps[j] = rate * (label - 1 / (1 + std::exp(-steps[j])));
  }
}

void AddToRow(const float* change, int64_t length, float* row) {
  for (int64_t d = 0; d < length; ++d) row[d] += change[d];
}

}  // namespace lshformer
#endif
