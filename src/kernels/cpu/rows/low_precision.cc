#include "kernels/low_precision.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/rows/each_row.h"
#include "kernels/work_memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/low_precision.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/rows/functions-inl.h"
#include "kernels/cpu/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

using IntTag = hn::Rebind<int32_t, FloatTag>;
using Int = hn::Vec<IntTag>;

void RoundRow(const float* HWY_RESTRICT x, int64_t columns, BFloat16* HWY_RESTRICT out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t c = 0; c < columns; c += lanes) StorePart(LoadPart(x + c, columns - c), out + c, columns - c);
}

// Whether all numbers of the row fit.
bool SplitRow(const float* HWY_RESTRICT x, int64_t columns, std::span<BFloat16* const> parts, float least) {
  const hn::Rebind<uint32_t, FloatTag> bits_tag;
  const hn::Rebind<uint16_t, FloatTag> half_tag;
  const IntTag integers;
  constexpr int32_t kBias = 127, kLimit = (kBias + 127) << 23;
  const Int least_size = hn::Set(integers, std::bit_cast<int32_t>(least));
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  const auto half = hn::Set(bits_tag, 0x7FFFu), one = hn::Set(bits_tag, 1u), upper = hn::Set(bits_tag, 0xFFFF0000u);
  Int misfits = hn::Zero(integers);
  for (int64_t c = 0; c < columns; c += lanes) {
    Float rest = LoadPart(x + c, columns - c);
    const Int size = hn::BitCast(integers, hn::Abs(rest));
    const auto misfit = hn::Or(hn::And(hn::Gt(size, hn::Zero(integers)), hn::Lt(size, least_size)),
                               hn::Gt(size, hn::Set(integers, kLimit - 1)));
    misfits = hn::Or(misfits, hn::VecFromMask(integers, misfit));
    for (BFloat16* part : parts) {
      const auto bits = hn::BitCast(bits_tag, rest);
      const auto even = hn::And(hn::ShiftRight<16>(bits), one);
      const auto rounded = hn::And(hn::Add(bits, hn::Add(half, even)), upper);
      StoreNarrow(hn::DemoteTo(half_tag, hn::BitCast(integers, hn::ShiftRight<16>(rounded))),
                  reinterpret_cast<uint16_t*>(part) + c, columns - c);
      rest = hn::Sub(rest, hn::BitCast(kTag, rounded));
    }
  }
  return hn::AllTrue(integers, hn::Eq(misfits, hn::Zero(integers)));
}

// What the steps of a row are taken from.
struct RowRange {
  HWY_INLINE RowRange() : low(hn::Zero(kTag)), high(hn::Zero(kTag)), finite(hn::Zero(kTag)) {}
  HWY_INLINE void Add(Float v) {
    low = hn::Min(low, v);
    high = hn::Max(high, v);
    finite = hn::MulAdd(v, hn::Zero(kTag), finite);
  }
  Float low, high, finite;  // finite: NaN once one is not
};

// round(x / scale) + zero within [0, 255].
void QuantizeWithin(const RowRange& range, const float* HWY_RESTRICT x, int64_t columns, uint8_t* HWY_RESTRICT out,
                    RowScale& row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  const float least = hn::GetLane(hn::MinOfLanes(kTag, range.low));
  const float most = hn::GetLane(hn::MaxOfLanes(kTag, range.high));
  if (std::isnan(Sum(range.finite))) {
    row = {std::numeric_limits<float>::quiet_NaN(), 0};
    std::memset(out, 0, columns);
    return;
  }
  const float scale = most / 255 - least / 255;  // each for itself: their difference may exceed the range of float
  if (!(scale >= std::numeric_limits<float>::min())) {  // zeros, or too small to divide by
    row = {1.0f, 0};
    std::memset(out, 0, columns);
    return;
  }
  const float inverse = 1 / scale;
  row = {scale, static_cast<int32_t>(std::lround(std::min(255.0f, -least * inverse)))};
  const Float factor = hn::Set(kTag, inverse);
  const Int zero = hn::Set(IntTag(), row.zero);
  const hn::Rebind<uint8_t, FloatTag> byte_tag;
  for (int64_t c = 0; c < columns; c += lanes) {
    const Int q = hn::Add(hn::NearestInt(hn::Mul(LoadPart(x + c, columns - c), factor)), zero);
    StoreNarrow(hn::DemoteTo(byte_tag, q), out + c, columns - c);  // saturates
  }
}

void QuantizeRow(const float* HWY_RESTRICT x, int64_t columns, uint8_t* HWY_RESTRICT out, RowScale& row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  RowRange range;
  for (int64_t c = 0; c < columns; c += lanes) range.Add(LoadPart(x + c, columns - c));  // zeros behind change nothing
  QuantizeWithin(range, x, columns, out, row);
}

void QuantizeWeightRow(const float* HWY_RESTRICT w, int64_t columns, int8_t* HWY_RESTRICT out, float& scale,
                       int32_t& sum) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  Float largest = hn::Zero(kTag);
  for (int64_t c = 0; c < columns; c += lanes) largest = hn::Max(largest, hn::Abs(LoadPart(w + c, columns - c)));
  scale = hn::GetLane(hn::MaxOfLanes(kTag, largest)) / 127;
  if (!(scale >= std::numeric_limits<float>::min())) scale = 1;  // weights below float's normal numbers become 0
  const Float factor = hn::Set(kTag, 1 / scale);
  const hn::Rebind<int8_t, FloatTag> byte_tag;
  Int total = hn::Zero(IntTag());
  for (int64_t c = 0; c < columns; c += lanes) {
    const Int q = hn::NearestInt(hn::Mul(LoadPart(w + c, columns - c), factor));
    total = hn::Add(total, q);
    StoreNarrow(hn::DemoteTo(byte_tag, q), out + c, columns - c);
  }
  sum = hn::GetLane(hn::SumOfLanes(IntTag(), total));
}

// Of one row, columns from `first` on.
struct RowDequantization {
  HWY_INLINE RowDequantization(const Dequantization& call, const RowScale& row, int64_t first)
      : scale(hn::Set(kTag, row.scale)),
        zero(hn::Set(IntTag(), row.zero)),
        weight_scales(call.weight_scales.data() + first),
        bias(call.bias.data() + first),
        weight_sums(call.weight_sums.data() + first) {}
  // Of the sums from y on, n of them at most, the c-th and those after it.
  HWY_INLINE Float operator()(const float* y, int64_t c, int64_t n) const {
    const auto load = [&](const void* p) { return hn::BitCast(IntTag(), LoadPart(static_cast<const float*>(p), n)); };
    const Int sum = hn::Sub(load(y + c), hn::Mul(zero, load(weight_sums + c)));
    const Float factor = hn::Mul(scale, LoadPart(weight_scales + c, n));
    return hn::MulAdd(hn::ConvertTo(kTag, sum), factor, LoadPart(bias + c, n));
  }
  Float scale;
  Int zero;
  const float *weight_scales, *bias;
  const int32_t* weight_sums;
};

// Columns [first, first + columns) of a row, whose sums begin at `sums`; out may be there too.
template <class T>
HWY_INLINE void DequantizeRowTo(const Dequantization& call, int64_t row, int64_t first, int64_t columns,
                                const float* sums, T* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  const RowDequantization value(call, call.rows[row], first);
  for (int64_t c = 0; c < columns; c += lanes) StorePart(value(sums, c, columns - c), out + c, columns - c);
}
void DequantizeRow(const Dequantization& call, int64_t row, int64_t first, int64_t columns, float* y) {
  DequantizeRowTo(call, row, first, columns, y, y);
}
void DequantizeAndRoundRow(const Dequantization& call, int64_t row, int64_t columns, const float* sums, BFloat16* out) {
  DequantizeRowTo(call, row, 0, columns, sums, out);
}

// gated: with as many columns behind the first ones, which the function's values are multiplied by.
template <bool gated>
HWY_INLINE void RequantizeColumns(const Dequantization& call, int64_t row, int64_t columns, float* y, uint8_t* out,
                                  RowScale& scale) {
  WithFunction(*call.function, [&](auto of) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
    const RowDequantization value(call, call.rows[row], 0), gate(call, call.rows[row], gated ? columns : 0);
    RowRange range;
    for (int64_t c = 0; c < columns; c += lanes) {
      const int64_t n = columns - c;
      Float v = ValueForBytes<decltype(of)::value>(value(y, c, n));
      if constexpr (gated) v = hn::Mul(v, gate(y + columns, c, n));
      StorePart(v, y + c, n);
      // Behind the last column is a value of no sum.
      range.Add(HWY_LIKELY(n >= lanes) ? v : LoadPart(y + c, n));
    }
    QuantizeWithin(range, y, columns, out, scale);
  });
}
void RequantizeRow(const Dequantization& call, int64_t row, int64_t columns, float* y, uint8_t* out, RowScale& scale) {
  RequantizeColumns<false>(call, row, columns, y, out, scale);
}
void RequantizeGatedRow(const Dequantization& call, int64_t row, int64_t columns, float* y, uint8_t* out,
                        RowScale& scale) {
  RequantizeColumns<true>(call, row, columns, y, out, scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(RoundRow);
HWY_EXPORT(SplitRow);
HWY_EXPORT(QuantizeRow);
HWY_EXPORT(QuantizeWeightRow);
HWY_EXPORT(DequantizeRow);
HWY_EXPORT(DequantizeAndRoundRow);
HWY_EXPORT(RequantizeRow);
HWY_EXPORT(RequantizeGatedRow);

void RoundRows(const float* x, int64_t x_stride, int64_t rows, int64_t columns, BFloat16* out) {
  ForEachRow(rows, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(RoundRow)(x + row * x_stride, columns, out + row * columns);
  });
}

const BFloat16* RoundRows(const float* x, int64_t rows, int64_t columns) {
  auto* out = reinterpret_cast<BFloat16*>(WorkspaceOf(WorkspaceUse::kLowFactor, rows * columns * sizeof(BFloat16)));
  RoundRows(x, columns, rows, columns, out);
  return out;
}

void SplitRows(const float* x, int64_t x_stride, int64_t rows, int64_t columns, std::span<BFloat16* const> parts,
               float least, uint8_t* fits) {
  ForEachRow(rows, [&](int64_t row) {
    std::array<BFloat16*, kPartsOfFloat> of_row{};
    std::transform(parts.begin(), parts.end(), of_row.begin(), [&](BFloat16* part) { return part + row * columns; });
    const bool all =
        HWY_DYNAMIC_DISPATCH(SplitRow)(x + row * x_stride, columns, std::span(of_row).first(parts.size()), least);
    fits[row] = all ? 1 : 0;
  });
}

void QuantizeRows(const float* x, int64_t rows, int64_t columns, uint8_t* out, RowScale* scales) {
  ForEachRow(rows, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(QuantizeRow)(x + row * columns, columns, out + row * columns, scales[row]);
  });
}

QuantizedRows QuantizeRows(const float* x, int64_t rows, int64_t columns) {
  const QuantizedRows to{
      reinterpret_cast<uint8_t*>(WorkspaceOf(WorkspaceUse::kLowFactor, rows * columns)),
      reinterpret_cast<RowScale*>(WorkspaceOf(WorkspaceUse::kRowScales, rows * sizeof(RowScale))),
  };
  QuantizeRows(x, rows, columns, to.numbers, to.scales);
  return to;
}

void QuantizeWeight(const float* w, int64_t rows, int64_t columns, int8_t* out, float* scales, int32_t* sums) {
  ForEachRow(rows, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(QuantizeWeightRow)(w + row * columns, columns, out + row * columns, scales[row], sums[row]);
  });
}

void Dequantize(const Dequantization& call, float* y) {
  const size_t columns = call.bias.size();
  ForEachRow(static_cast<int64_t>(call.rows.size()), [&](int64_t row) {
    float* out = y + row * columns;
    HWY_DYNAMIC_DISPATCH(DequantizeRow)(call, row, 0, static_cast<int64_t>(columns), out);
    if (call.function) ApplyFunction(*call.function, {out, columns}, out);
  });
}

void Dequantize(const Dequantization& call, const float* sums, BFloat16* out) {
  const int64_t columns = static_cast<int64_t>(call.bias.size());
  ForEachRow(static_cast<int64_t>(call.rows.size()), [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(DequantizeAndRoundRow)(call, row, columns, sums + row * columns, out + row * columns);
  });
}

void Requantize(const Dequantization& call, float* y, uint8_t* out, RowScale* scales) {
  const int64_t columns = static_cast<int64_t>(call.bias.size());
  ForEachRow(static_cast<int64_t>(call.rows.size()), [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(RequantizeRow)(call, row, columns, y + row * columns, out + row * columns, scales[row]);
  });
}

void RequantizeGated(const Dequantization& call, float* y, uint8_t* out, RowScale* scales) {
  const int64_t columns = static_cast<int64_t>(call.bias.size()) / 2;
  ForEachRow(static_cast<int64_t>(call.rows.size()), [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(RequantizeGatedRow)
    (call, row, columns, y + row * 2 * columns, out + row * columns, scales[row]);
  });
}

void DequantizeBlock(const Dequantization& call, const DequantizedBlock& block) {
  const auto of_row = HWY_DYNAMIC_DISPATCH(DequantizeRow);
  for (int64_t row = 0; row < block.rows; ++row)
    of_row(call, block.row + row, block.column, block.columns, block.sums + row * block.stride);
}

}  // namespace lshformer
#endif
