#include "kernels/lstm.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "kernels/cpu/aligned_floats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sequences/lstm.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include "kernels/cpu/rows/rows-inl.h"
#include "kernels/cpu/vector_math-inl.h"

#ifndef LSHFORMER_KERNELS_LSTM_GROUP
#define LSHFORMER_KERNELS_LSTM_GROUP
namespace lshformer {

constexpr int64_t kGates = 4;
// Sequences of a task. Products take eight rows at a time; with more a task of a small batch would be all there is.
constexpr int kGroup = 8;
// Units are padded to a multiple of this, that of the longest vectors, with zeros.
constexpr int64_t kUnitBlock = 16;
inline int64_t Padded(int64_t units) { return (units + kUnitBlock - 1) / kUnitBlock * kUnitBlock; }

// Up to eight sequences, longest first.
struct LstmGroup {
  int count = 0;
  int64_t first[kGroup], length[kGroup];  // row of step 0, rows
  int64_t step = 1;                       // from one step's row to the next one's
  int64_t Row(int sequence, int64_t t) const { return first[sequence] + step * t; }
  int Running(int64_t t) const {
    return static_cast<int>(std::count_if(length, length + count, [t](int64_t rows) { return rows > t; }));
  }
};

}  // namespace lshformer
#endif

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

// A second factor [inner][columns] lies in strips of two vectors of columns (the last perhaps of one), so that a
// product reads it from one end to the other.
constexpr int kStrip = 2 * kLanes;

// Element (k, column) of the second factor is at(k, column).
template <class At>
void PackStrips(int64_t inner, int64_t columns, const At& at, float* packed) {
  for (int64_t first = 0; first < columns; first += kStrip) {
    const int64_t width = std::min<int64_t>(kStrip, columns - first);
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t c = 0; c < width; ++c) *packed++ = at(k, first + c);
  }
}

template <Store kStore>
void MultiplyStrips(const float* a, int64_t a_stride, const float* packed, int rows, int64_t inner, int64_t columns,
                    float* c) {
  for (int64_t first = 0; first < columns; first += kStrip) {
    const int width = static_cast<int>(std::min<int64_t>(kStrip, columns - first));
    Multiply<kStore, false>({a, a_stride}, {packed, width}, {c + first, columns}, rows, width, static_cast<int>(inner));
    packed += inner * width;
  }
}

// W_hhᵀ with columns [gate][unit, padded]: h·W_hhᵀ.
void PackForward(const float* recurrent, int64_t units, float* packed) {
  const int64_t padded = Padded(units);
  PackStrips(
      units, kGates * padded,
      [&](int64_t k, int64_t column) {
        const int64_t gate = column / padded, unit = column % padded;
        return unit < units ? recurrent[(gate * units + unit) * units + k] : 0.0f;
      },
      packed);
}

// W_hh with rows [gate][unit, padded] and padded columns: the gradient's way back.
void PackBackward(const float* recurrent, int64_t units, float* packed) {
  const int64_t padded = Padded(units);
  PackStrips(
      kGates * padded, padded,
      [&](int64_t row, int64_t column) {
        const int64_t gate = row / padded, unit = row % padded;
        return unit < units && column < units ? recurrent[(gate * units + unit) * units + column] : 0.0f;
      },
      packed);
}

// [4][units] ↔ [4][padded]. What is padded stays as it was, numbers below 1 that no unit sees.
HWY_INLINE void SpreadGates(const float* HWY_RESTRICT from, int64_t units, float* HWY_RESTRICT to) {
  for (int64_t gate = 0; gate < kGates; ++gate) std::copy_n(from + gate * units, units, to + gate * Padded(units));
}
HWY_INLINE void GatherGates(const float* HWY_RESTRICT from, int64_t units, float* HWY_RESTRICT to) {
  for (int64_t gate = 0; gate < kGates; ++gate) std::copy_n(from + gate * Padded(units), units, to + gate * units);
}

// sums: [4][padded], replaced by the gates. cell: the old one, then the new one.
HWY_INLINE void Advance(int64_t padded, float* HWY_RESTRICT sums, float* HWY_RESTRICT cell,
                        float* HWY_RESTRICT hidden) {
  for (int64_t u = 0; u < padded; u += kLanes) {
    const Float i = Logistic(hn::Load(kTag, sums + u)).value;
    const Float f = Logistic(hn::Load(kTag, sums + padded + u)).value;
    const Float g = hn::Tanh(kTag, hn::Load(kTag, sums + 2 * padded + u));
    const Float o = Logistic(hn::Load(kTag, sums + 3 * padded + u)).value;
    const Float c = hn::MulAdd(f, hn::Load(kTag, cell + u), hn::Mul(i, g));
    hn::Store(i, kTag, sums + u), hn::Store(f, kTag, sums + padded + u);
    hn::Store(g, kTag, sums + 2 * padded + u), hn::Store(o, kTag, sums + 3 * padded + u);
    hn::Store(c, kTag, cell + u);
    hn::Store(hn::Mul(o, hn::Tanh(kTag, c)), kTag, hidden + u);
  }
}

void RunGroup(const LstmDirection& call, const LstmGroup& group, const float* packed) {
  const int64_t units = call.units, padded = Padded(units), width = kGates * padded;
  const AlignedFloats memory = AllocateFloats(kGroup * (width + 2 * padded));
  std::fill_n(memory.get(), kGroup * (width + 2 * padded), 0.0f);
  float *sums = memory.get(), *hidden = sums + kGroup * width, *cells = hidden + kGroup * padded;
  for (int64_t t = 0; t < group.length[0]; ++t) {
    const int running = group.Running(t);
    for (int s = 0; s < running; ++s)
      SpreadGates(call.gates + group.Row(s, t) * kGates * units, units, sums + s * width);
    MultiplyStrips<Store::kAdd>(hidden, padded, packed, running, units, width, sums);
    for (int s = 0; s < running; ++s) {
      const int64_t row = group.Row(s, t);
      Advance(padded, sums + s * width, cells + s * padded, hidden + s * padded);
      std::copy_n(hidden + s * padded, units, call.hidden + row * call.hidden_stride);
      if (call.cells == nullptr) continue;
      std::copy_n(cells + s * padded, units, call.cells + row * units);
      GatherGates(sums + s * width, units, call.gates + row * kGates * units);
    }
  }
}

// One row's step back. gates: [4][units]; before: c of the step before, or nullptr; grad_hidden: by this step's h;
// carried: the rest of it, that came through the next step; grad_cell: by this step's c, then by the one before;
// grad_sums: [4][padded].
HWY_INLINE void Return(int64_t units, const float* gates, const float* cell, const float* before,
                       const float* grad_hidden, const float* HWY_RESTRICT carried, float* HWY_RESTRICT grad_cell,
                       float* HWY_RESTRICT grad_sums) {
  const int64_t padded = Padded(units);
  const Float one = hn::Set(kTag, 1.0f);
  for (int64_t u = 0; u < units; u += kLanes) {
    const int64_t left = units - u;
    const Float i = LoadPart(gates + u, left), f = LoadPart(gates + units + u, left);
    const Float g = LoadPart(gates + 2 * units + u, left), o = LoadPart(gates + 3 * units + u, left);
    const Float tanh_c = hn::Tanh(kTag, LoadPart(cell + u, left));
    const Float dh = hn::Add(LoadPart(grad_hidden + u, left), hn::Load(kTag, carried + u));
    const Float dc = hn::MulAdd(hn::Mul(dh, o), hn::NegMulAdd(tanh_c, tanh_c, one), hn::Load(kTag, grad_cell + u));
    const Float c_before = before == nullptr ? hn::Zero(kTag) : LoadPart(before + u, left);
    hn::Store(hn::Mul(dc, f), kTag, grad_cell + u);
    const auto store = [&](int64_t gate, Float by_value, Float slope) {
      hn::Store(hn::Mul(by_value, slope), kTag, grad_sums + gate * padded + u);
    };
    store(0, hn::Mul(dc, g), hn::Mul(i, hn::Sub(one, i)));
    store(1, hn::Mul(dc, c_before), hn::Mul(f, hn::Sub(one, f)));
    store(2, hn::Mul(dc, i), hn::NegMulAdd(g, g, one));
    store(3, hn::Mul(dh, tanh_c), hn::Mul(o, hn::Sub(one, o)));
  }
}

void ReturnGroup(const LstmDirectionGradient& call, const LstmGroup& group, const float* packed) {
  const int64_t units = call.units, padded = Padded(units), width = kGates * padded;
  const AlignedFloats memory = AllocateFloats(kGroup * (width + 2 * padded));
  std::fill_n(memory.get(), kGroup * (width + 2 * padded), 0.0f);
  float *grad_sums = memory.get(), *carried = grad_sums + kGroup * width, *grad_cells = carried + kGroup * padded;
  for (int64_t t = group.length[0] - 1; t >= 0; --t) {
    const int running = group.Running(t);
    for (int s = 0; s < running; ++s) {
      const int64_t row = group.Row(s, t);
      Return(units, call.gates + row * kGates * units, call.cells + row * units,
             t == 0 ? nullptr : call.cells + (row - group.step) * units, call.grad_hidden + row * call.hidden_stride,
             carried + s * padded, grad_cells + s * padded, grad_sums + s * width);
      GatherGates(grad_sums + s * width, units, call.grad_sums + row * kGates * units);
    }
    if (t > 0) MultiplyStrips<Store::kSet>(grad_sums, width, packed, running, width, padded, carried);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(PackForward);
HWY_EXPORT(PackBackward);
HWY_EXPORT(RunGroup);
HWY_EXPORT(ReturnGroup);

namespace {

// Those sequences that have rows, longest first.
std::vector<LstmGroup> Groups(std::span<const int32_t> cu_seqlens, bool from_last_row) {
  std::vector<size_t> order(cu_seqlens.empty() ? 0 : cu_seqlens.size() - 1);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t b) { return cu_seqlens[b + 1] - cu_seqlens[b]; };
  std::erase_if(order, [&](size_t b) { return length(b) == 0; });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return length(a) > length(b); });
  std::vector<LstmGroup> groups;
  for (const size_t b : order) {
    if (groups.empty() || groups.back().count == kGroup) groups.emplace_back();
    LstmGroup& group = groups.back();
    group.step = from_last_row ? -1 : 1;
    group.first[group.count] = from_last_row ? cu_seqlens[b + 1] - 1 : cu_seqlens[b];
    group.length[group.count++] = length(b);
  }
  return groups;
}

// Calls run(direction, group, its packed weights) for all of them, the longest sequences first.
template <class Direction, class Pack, class Run>
void ForGroups(std::span<const Direction> directions, std::span<const int32_t> cu_seqlens, const Pack& pack,
               const Run& run) {
  std::vector<std::vector<LstmGroup>> groups;
  std::vector<AlignedFloats> packed;
  for (const Direction& direction : directions) {
    const int64_t padded = Padded(direction.units);
    groups.push_back(Groups(cu_seqlens, direction.from_last_row));
    packed.push_back(AllocateFloats(kGates * padded * padded));
    pack(direction.recurrent, direction.units, packed.back().get());
  }
  const int64_t count = std::ssize(directions), tasks = count * std::ssize(groups[0]);
  ParallelFor(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const size_t which = static_cast<size_t>(task % count);
      run(directions[which], groups[which][static_cast<size_t>(task / count)], packed[which].get());
    }
  });
}

}  // namespace

void RunLstm(std::span<const LstmDirection> directions, std::span<const int32_t> cu_seqlens) {
  ForGroups(
      directions, cu_seqlens,
      [](const float* recurrent, int64_t units, float* packed) {
        HWY_DYNAMIC_DISPATCH(PackForward)(recurrent, units, packed);
      },
      [](const LstmDirection& direction, const LstmGroup& group, const float* packed) {
        HWY_DYNAMIC_DISPATCH(RunGroup)(direction, group, packed);
      });
}

void RunLstmGradient(std::span<const LstmDirectionGradient> directions, std::span<const int32_t> cu_seqlens) {
  ForGroups(
      directions, cu_seqlens,
      [](const float* recurrent, int64_t units, float* packed) {
        HWY_DYNAMIC_DISPATCH(PackBackward)(recurrent, units, packed);
      },
      [](const LstmDirectionGradient& direction, const LstmGroup& group, const float* packed) {
        HWY_DYNAMIC_DISPATCH(ReturnGroup)(direction, group, packed);
      });
}

void HiddenBefore(const float* hidden, int64_t hidden_stride, int64_t units, bool from_last_row,
                  std::span<const int32_t> cu_seqlens, float* before) {
  const int64_t step = from_last_row ? -1 : 1;
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b) {
    const int64_t first = from_last_row ? cu_seqlens[b + 1] - 1 : cu_seqlens[b];
    for (int64_t row = cu_seqlens[b]; row < cu_seqlens[b + 1]; ++row) {
      if (row == first) {
        std::fill_n(before + row * units, units, 0.0f);
      } else {
        std::copy_n(hidden + (row - step) * hidden_stride, units, before + row * units);
      }
    }
  }
}

}  // namespace lshformer
#endif
