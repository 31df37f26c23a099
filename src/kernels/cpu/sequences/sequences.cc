#include "kernels/sequences.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sequences/sequences.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/cpu/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {

// y = Σ_j taps[j]∘x[j] of `count` rows: those taps of one row of the result that meet a row of its sequence. Four
// vectors at a time, as a sum waits for the one before.
void ConvolveRow(const float* HWY_RESTRICT x, const float* HWY_RESTRICT taps, int64_t count, int64_t channels,
                 float* HWY_RESTRICT y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  int64_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes) {
    Float sum0 = hn::Zero(kTag), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    for (int64_t j = 0; j < count; ++j) {
      const float *tap = taps + j * channels + c, *row = x + j * channels + c;
      const auto add = [&](int64_t place, Float sum) {
        return hn::MulAdd(hn::LoadU(kTag, tap + place * lanes), hn::LoadU(kTag, row + place * lanes), sum);
      };
      sum0 = add(0, sum0), sum1 = add(1, sum1), sum2 = add(2, sum2), sum3 = add(3, sum3);
    }
    hn::StoreU(sum0, kTag, y + c), hn::StoreU(sum1, kTag, y + c + lanes);
    hn::StoreU(sum2, kTag, y + c + 2 * lanes), hn::StoreU(sum3, kTag, y + c + 3 * lanes);
  }
  for (; c < channels; c += lanes) {
    const int64_t left = channels - c;
    Float sum = hn::Zero(kTag);
    for (int64_t j = 0; j < count; ++j)
      sum = hn::MulAdd(LoadPart(taps + j * channels + c, left), LoadPart(x + j * channels + c, left), sum);
    StorePart(sum, y + c, left);
  }
}

// grad_taps[j] += grad_y∘x[j]
void AddTapGradients(const float* HWY_RESTRICT x, const float* HWY_RESTRICT grad_y, int64_t count, int64_t channels,
                     float* HWY_RESTRICT grad_taps) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t c = 0; c < channels; c += lanes) {
    const int64_t left = channels - c;
    const Float dy = LoadPart(grad_y + c, left);
    for (int64_t j = 0; j < count; ++j) {
      float* sum = grad_taps + j * channels + c;
      StorePart(hn::MulAdd(dy, LoadPart(x + j * channels + c, left), LoadPart(sum, left)), sum, left);
    }
  }
}

// Of rows [begin, end) of x.
void MaxOfRows(const float* HWY_RESTRICT x, int64_t begin, int64_t end, int64_t columns, float* HWY_RESTRICT y,
               int32_t* HWY_RESTRICT rows) {
  const hn::RebindToSigned<FloatTag> ints;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kTag));
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t left = columns - c;
    Float largest = LoadPart(x + begin * columns + c, left);
    auto places = hn::Set(ints, static_cast<int32_t>(begin));
    for (int64_t row = begin + 1; row < end; ++row) {
      const Float v = LoadPart(x + row * columns + c, left);
      // The first NaN stays: nothing is larger, and of NaNs after it only one that meets a number is taken.
      const auto fresh_nan = hn::And(hn::IsNaN(v), hn::Eq(largest, largest));
      const auto larger = hn::Or(hn::Gt(v, largest), fresh_nan);
      largest = hn::IfThenElse(larger, v, largest);
      places = hn::IfThenElse(hn::RebindMask(ints, larger), hn::Set(ints, static_cast<int32_t>(row)), places);
    }
    StorePart(largest, y + c, left);
    StorePart(hn::BitCast(kTag, places), reinterpret_cast<float*>(rows + c), left);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(ConvolveRow);
HWY_EXPORT(AddTapGradients);
HWY_EXPORT(MaxOfRows);

namespace {

// Rows per piece of work and per partial sum.
constexpr int64_t kRows = 64;

// The taps [first, first + count) of the row `row` that meet a row of its sequence; the first one meets `row + from`.
struct MeetingTaps {
  int64_t row, first, count, from;
};

// Calls visit(MeetingTaps) for rows [begin, end), which may be of several sequences.
template <class Visit>
void ForRows(std::span<const int32_t> cu_seqlens, int64_t width, int64_t begin, int64_t end, const Visit& visit) {
  const int64_t half = (width - 1) / 2;
  auto after = std::upper_bound(cu_seqlens.begin(), cu_seqlens.end(), begin);  // where the row's sequence ends
  for (int64_t row = begin; row < end; ++row) {
    while (*after <= row) ++after;
    const int64_t first = std::max<int64_t>(0, half - (row - *(after - 1)));
    const int64_t last = std::min<int64_t>(width - 1, half + (*after - 1 - row));
    visit(MeetingTaps{row, first, last - first + 1, first - half});
  }
}

}  // namespace

void Convolve(std::span<const int32_t> cu_seqlens, int64_t channels, int64_t width, const float* x, const float* taps,
              float* y) {
  ParallelFor(cu_seqlens.back(), kRows, [&](int64_t begin, int64_t end) {
    ForRows(cu_seqlens, width, begin, end, [&](const MeetingTaps& meeting) {
      HWY_DYNAMIC_DISPATCH(ConvolveRow)
      (x + (meeting.row + meeting.from) * channels, taps + meeting.first * channels, meeting.count, channels,
       y + meeting.row * channels);
    });
  });
}

void ConvolveTapGradient(std::span<const int32_t> cu_seqlens, int64_t channels, int64_t width, const float* x,
                         const float* grad_y, float* grad_taps) {
  const int64_t rows = cu_seqlens.back(), pieces = (rows + kRows - 1) / kRows, taps = width * channels;
  std::vector<float> partial(static_cast<size_t>(pieces * taps));
  ParallelFor(rows, kRows, [&](int64_t begin, int64_t end) {
    float* sums = partial.data() + begin / kRows * taps;
    ForRows(cu_seqlens, width, begin, end, [&](const MeetingTaps& meeting) {
      HWY_DYNAMIC_DISPATCH(AddTapGradients)
      (x + (meeting.row + meeting.from) * channels, grad_y + meeting.row * channels, meeting.count, channels,
       sums + meeting.first * channels);
    });
  });
  SumRows(partial.data(), taps, pieces, taps, grad_taps);
}

void MaxOfSegments(std::span<const int32_t> cu_segments, int64_t columns, const float* x, float* y, int32_t* rows) {
  ParallelFor(std::ssize(cu_segments) - 1, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) HWY_DYNAMIC_DISPATCH(MaxOfRows)
    (x, cu_segments[static_cast<size_t>(s)], cu_segments[static_cast<size_t>(s) + 1], columns, y + s * columns,
     rows + s * columns);
  });
}

void MaxOfSegmentsGradient(int64_t segments, int64_t columns, const float* grad_y, const int32_t* rows, float* grad_x) {
  ParallelFor(segments, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s)
      for (int64_t c = 0; c < columns; ++c) grad_x[rows[s * columns + c] * columns + c] = grad_y[s * columns + c];
  });
}

}  // namespace lshformer
#endif
