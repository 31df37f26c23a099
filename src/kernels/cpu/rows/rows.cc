#include "kernels/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/rows.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

using UintTag = hn::Rebind<uint32_t, FloatTag>;
using Uint = hn::Vec<UintTag>;

// The products of all lanes with one number: their high and their low 32 bits.
struct Products {
  Uint high, low;
};
HWY_INLINE Products MultiplyWide(Uint a, Uint b) {
#if HWY_TARGET == HWY_SCALAR  // one lane has no wider twin
  return {Uint(static_cast<uint32_t>((uint64_t{a.raw} * b.raw) >> 32)), hn::Mul(a, b)};
#else
  constexpr UintTag d;
  const hn::RepartitionToWide<UintTag> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even))};
#endif
}

// base/philox.h for as many counters as there are lanes.
HWY_INLINE void PhiloxLanes(uint64_t key, Uint& c0, Uint& c1, Uint& c2, Uint& c3) {
  constexpr UintTag d;
  const Uint m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Products first = MultiplyWide(c0, m0), second = MultiplyWide(c2, m1);
    c0 = hn::Xor(second.high, hn::Xor(c1, hn::Set(d, k0)));
    c1 = second.low;
    c2 = hn::Xor(first.high, hn::Xor(c3, hn::Set(d, k1)));
    c3 = first.low;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

// factors[c] = 0 or 1 / (1 − p) for the features of one row, columns rounded up to 64 of them. Feature 64g + 16w + i
// takes word w of block 16g + i: the same numbers with vectors of 4, 8 or 16 lanes.
void DropoutFactors(const RowDropout& dropout, int64_t row, int64_t columns, float* HWY_RESTRICT factors) {
  constexpr UintTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const uint64_t sequence = dropout.sequence_ids[row];
  const hn::RebindToSigned<UintTag> signed_tag;  // 31 bits: there is no comparison of unsigned lanes everywhere
  const auto dropped_below =
      hn::Set(signed_tag, static_cast<int32_t>(std::min(2147483647.0, dropout.probability * 0x1p31)));
  const Float scale = hn::Set(kTag, 1.0f / (1.0f - dropout.probability));
  const Uint numbers = hn::Iota(d, 0);  // one that begins elsewhere goes through memory
  for (int64_t group = 0; group * 64 < columns; ++group) {
    for (int64_t lane = 0; lane < 16; lane += lanes) {
      Uint c0 = hn::Add(numbers, hn::Set(d, static_cast<uint32_t>(group * 16 + lane)));
      Uint c1 = hn::Set(d, static_cast<uint32_t>(dropout.positions[row]));
      Uint c2 = hn::Set(d, static_cast<uint32_t>(sequence)), c3 = hn::Set(d, static_cast<uint32_t>(sequence >> 32));
      PhiloxLanes(dropout.key, c0, c1, c2, c3);
      float* out = factors + group * 64 + lane;
      const auto factor = [&](Uint bits) {
        const auto number = hn::BitCast(signed_tag, hn::ShiftRight<1>(bits));
        return hn::IfThenZeroElse(hn::RebindMask(kTag, hn::Lt(number, dropped_below)), scale);
      };
      hn::StoreU(factor(c0), kTag, out);
      hn::StoreU(factor(c1), kTag, out + 16);
      hn::StoreU(factor(c2), kTag, out + 32);
      hn::StoreU(factor(c3), kTag, out + 48);
    }
  }
}

void DropoutRow(const float* HWY_RESTRICT factors, const float* x, int64_t columns, float* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t c = 0; c < columns; c += lanes)
    StorePart(hn::Mul(LoadPart(x + c, columns - c), hn::LoadU(kTag, factors + c)), out + c, columns - c);
}

void NormRow(const DropoutAddNorm& call, int64_t row, const float* HWY_RESTRICT factors) {
  const int64_t columns = call.columns, lanes = static_cast<int64_t>(hn::Lanes(kTag));
  const float* x = call.x + row * columns;
  const float* residual = call.residual == nullptr ? nullptr : call.residual + row * columns;
  float* sum = call.sum + row * columns;
  float* y = call.y + row * columns;  // perhaps sum
  Float total = hn::Zero(kTag);
  for (int64_t c = 0; c < columns; c += lanes) {
    Float v = LoadPart(x + c, columns - c);
    if (factors != nullptr) v = hn::Mul(v, hn::LoadU(kTag, factors + c));
    if (residual != nullptr) v = hn::Add(v, LoadPart(residual + c, columns - c));
    StorePart(v, sum + c, columns - c);
    total = hn::Add(total, v);
  }
  const float mean = Sum(total) / static_cast<float>(columns);
  const Float means = hn::Set(kTag, mean);
  Float squares = hn::Zero(kTag);
  for (int64_t c = 0; c < columns; c += lanes) {
    const Float v = hn::IfThenElseZero(hn::FirstN(kTag, columns - c), hn::Sub(LoadPart(sum + c, columns - c), means));
    squares = hn::MulAdd(v, v, squares);
  }
  const float inverse = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(columns) + call.eps);
  const Float inverses = hn::Set(kTag, inverse);
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t n = columns - c;
    const Float normal = hn::Mul(hn::Sub(LoadPart(sum + c, n), means), inverses);
    StorePart(hn::MulAdd(normal, LoadPart(call.gamma + c, n), LoadPart(call.beta + c, n)), y + c, n);
  }
  if (call.mean != nullptr) call.mean[row] = mean;
  if (call.inverse_deviation != nullptr) call.inverse_deviation[row] = inverse;
}

// partial: gamma's sums, then beta's, of the rows so far of this block.
void NormGradientRow(const DropoutAddNormGradient& call, int64_t row, const float* HWY_RESTRICT factors,
                     float* HWY_RESTRICT partial) {
  const DropoutAddNorm& forward = call.forward;
  const int64_t columns = forward.columns, lanes = static_cast<int64_t>(hn::Lanes(kTag));
  const float* HWY_RESTRICT sum = forward.sum + row * columns;
  const float* HWY_RESTRICT grad_y = call.grad_y + row * columns;
  const Float mean = hn::Set(kTag, forward.mean[row]), inverse = hn::Set(kTag, forward.inverse_deviation[row]);
  Float total = hn::Zero(kTag), projection = hn::Zero(kTag);
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t n = columns - c;
    const Float dy = LoadPart(grad_y + c, n);
    const Float normal = hn::Mul(hn::Sub(LoadPart(sum + c, n), mean), inverse);
    StorePart(hn::MulAdd(dy, normal, LoadPart(partial + c, n)), partial + c, n);
    StorePart(hn::Add(dy, LoadPart(partial + columns + c, n)), partial + columns + c, n);
    const Float g = hn::Mul(dy, LoadPart(forward.gamma + c, n));  // 0 behind the last column
    total = hn::Add(total, g);
    projection = hn::MulAdd(g, normal, projection);
  }
  const Float mean_g = hn::Set(kTag, Sum(total) / static_cast<float>(columns));
  const Float mean_projection = hn::Set(kTag, Sum(projection) / static_cast<float>(columns));
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t n = columns - c;
    const Float g = hn::Mul(LoadPart(grad_y + c, n), LoadPart(forward.gamma + c, n));
    const Float normal = hn::Mul(hn::Sub(LoadPart(sum + c, n), mean), inverse);
    const Float ds = hn::Mul(inverse, hn::Sub(hn::Sub(g, mean_g), hn::Mul(normal, mean_projection)));
    if (call.grad_residual != nullptr) StorePart(ds, call.grad_residual + row * columns + c, n);
    StorePart(factors == nullptr ? ds : hn::Mul(ds, hn::LoadU(kTag, factors + c)), call.grad_x + row * columns + c, n);
  }
}

void AddTo(const float* HWY_RESTRICT x, int64_t columns, float* HWY_RESTRICT sums) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t c = 0; c < columns; c += lanes)
    StorePart(hn::Add(LoadPart(x + c, columns - c), LoadPart(sums + c, columns - c)), sums + c, columns - c);
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(DropoutFactors);
HWY_EXPORT(DropoutRow);
HWY_EXPORT(NormRow);
HWY_EXPORT(NormGradientRow);
HWY_EXPORT(AddTo);

namespace {

// Rows per piece of work and per partial sum. Fixed, so that sums over rows do not depend on threads.
constexpr int64_t kRows = 64;

std::vector<float> FactorSpace(const RowDropout& dropout, int64_t columns) {
  return std::vector<float>(dropout.probability > 0 ? (columns + 63) / 64 * 64 : 0);
}

// sums = Σ of the partial sums, one after another.
void AddPartialSums(const std::vector<float>& partial, int64_t columns, float* sums) {
  std::fill_n(sums, columns, 0.0f);
  for (size_t first = 0; first < partial.size(); first += columns)
    HWY_DYNAMIC_DISPATCH(AddTo)(partial.data() + first, columns, sums);
}

int64_t Blocks(int64_t rows) { return (rows + kRows - 1) / kRows; }

}  // namespace

void SumRows(const float* x, int64_t row_stride, int64_t rows, int64_t columns, float* sums) {
  std::vector<float> partial(Blocks(rows) * columns);
  ParallelFor(rows, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      HWY_DYNAMIC_DISPATCH(AddTo)(x + row * row_stride, columns, partial.data() + begin / kRows * columns);
  });
  AddPartialSums(partial, columns, sums);
}

void ApplyDropout(const RowDropout& dropout, const float* x, int64_t rows, int64_t columns, float* out) {
  if (dropout.probability <= 0) {
    if (out != x) std::copy_n(x, rows * columns, out);
    return;
  }
  ParallelFor(rows, kRows, [&](int64_t begin, int64_t end) {
    std::vector<float> factors = FactorSpace(dropout, columns);
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(DropoutFactors)(dropout, row, columns, factors.data());
      HWY_DYNAMIC_DISPATCH(DropoutRow)(factors.data(), x + row * columns, columns, out + row * columns);
    }
  });
}

void RunDropoutAddNorm(const DropoutAddNorm& call) {
  ParallelFor(call.rows, kRows, [&](int64_t begin, int64_t end) {
    std::vector<float> factors = FactorSpace(call.dropout, call.columns);
    for (int64_t row = begin; row < end; ++row) {
      if (!factors.empty()) HWY_DYNAMIC_DISPATCH(DropoutFactors)(call.dropout, row, call.columns, factors.data());
      HWY_DYNAMIC_DISPATCH(NormRow)(call, row, factors.empty() ? nullptr : factors.data());
    }
  });
}

void RunDropoutAddNormGradient(const DropoutAddNormGradient& call) {
  const int64_t columns = call.forward.columns, rows = call.forward.rows;
  std::vector<float> partial(Blocks(rows) * 2 * columns), sums(2 * columns);
  ParallelFor(rows, kRows, [&](int64_t begin, int64_t end) {
    std::vector<float> factors = FactorSpace(call.forward.dropout, columns);
    for (int64_t row = begin; row < end; ++row) {
      if (!factors.empty()) HWY_DYNAMIC_DISPATCH(DropoutFactors)(call.forward.dropout, row, columns, factors.data());
      HWY_DYNAMIC_DISPATCH(NormGradientRow)
      (call, row, factors.empty() ? nullptr : factors.data(), partial.data() + begin / kRows * 2 * columns);
    }
  });
  AddPartialSums(partial, 2 * columns, sums.data());
  std::copy_n(sums.data(), columns, call.grad_gamma);
  std::copy_n(sums.data() + columns, columns, call.grad_beta);
}

}  // namespace lshformer
#endif
