#include "kernels/cpu/hashing/halving.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/cpu/attention/executor.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/halving.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"

#ifndef LSHFORMER_HALVING_ONCE
#define LSHFORMER_HALVING_ONCE
namespace lshformer {

// Rows to be split at rank `wanted` of their numbers, and memory for it: arrays have room for a vector behind the last.
struct RowSplit {
  const float* numbers;  // of all rows
  const int32_t* rows;
  int32_t count, wanted;
  float* values;
  int32_t *bins, *below, *inside, *above;
};

}  // namespace lshformer
#endif

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// to[i] ← numbers[rows[i]]; the least and the largest of them. What lies behind the last row must be a row, too.
std::pair<float, float> GatherNumbers(const float* numbers, const int32_t* rows, int32_t count, float* to) {
  const Floats d;
  const Ints di;
  FloatVec low = hn::Set(d, numbers[rows[0]]), high = low;
  for (int32_t i = 0; i < count; i += kLanes) {
    const FloatVec x = hn::GatherIndex(d, numbers, hn::LoadU(di, rows + i));
    hn::StoreU(x, d, to + i);
    const auto held = hn::FirstN(d, static_cast<size_t>(count - i));
    low = hn::IfThenElse(held, hn::Min(low, x), low);
    high = hn::IfThenElse(held, hn::Max(high, x), high);
  }
  return {hn::GetLane(hn::MinOfLanes(d, low)), hn::GetLane(hn::MaxOfLanes(d, high))};
}

// bins[i] ← ⌊(x_i − low) · scale⌋
void FindBins(const float* x, int32_t count, float low, float scale, int32_t* bins) {
  const Floats d;
  const Ints di;
  for (int32_t i = 0; i < count; i += kLanes)
    hn::StoreU(hn::ConvertTo(di, hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, low)), hn::Set(d, scale))), di,
               bins + i);
}

struct Parts {
  int32_t *below, *inside, *above;  // where the next one goes
};

// Rows to the part that their bin lies in, in their order.
Parts Partition(const int32_t* rows, const int32_t* bins, int32_t count, int32_t bin, Parts to) {
  const Ints d;
  const auto cut = hn::Set(d, bin);
  const auto append = [d](hn::Vec<Ints> x, hn::Mask<Ints> counts, int32_t*& at) HWY_ATTR {
    hn::StoreU(hn::Compress(x, counts), d, at);
    at += hn::CountTrue(d, counts);
  };
  for (int32_t i = 0; i < count; i += kLanes) {
    const auto held = hn::FirstN(d, static_cast<size_t>(count - i));
    const auto row = hn::LoadU(d, rows + i), own = hn::LoadU(d, bins + i);
    append(row, hn::And(held, hn::Lt(own, cut)), to.below);
    append(row, hn::And(held, hn::Eq(own, cut)), to.inside);
    append(row, hn::And(held, hn::Gt(own, cut)), to.above);
  }
  return to;
}

}  // namespace

// The rows that lie in lower, the same and higher bins than rank `wanted`, and how many; false: all alike, or not
// numbers.
bool SplitByBins(const RowSplit& split, std::array<int32_t, 3>& sizes) {
  constexpr int kBins = 64;
  const auto [low, high] = GatherNumbers(split.numbers, split.rows, split.count, split.values);
  const float scale = (kBins - 1) / (high - low);
  if (!std::isfinite(scale) || !std::isfinite(low) || !std::isfinite(high)) return false;
  FindBins(split.values, split.count, low, scale, split.bins);
  std::array<int32_t, kBins> inside{};
  for (int32_t i = 0; i < split.count; ++i) ++inside[split.bins[i]];
  int32_t before = 0, bin = 0;
  while (before + inside[bin] <= split.wanted) before += inside[bin++];
  const Parts ends = Partition(split.rows, split.bins, split.count, bin, {split.below, split.inside, split.above});
  sizes = {static_cast<int32_t>(ends.below - split.below), static_cast<int32_t>(ends.inside - split.inside),
           static_cast<int32_t>(ends.above - split.above)};
  return true;
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(SplitByBins);

void Halving::Run(HeadTensor<const float> x, TokenRange tokens, int head, const AlignedDirections& along,
                  int directions, int32_t parts, int32_t* labels, int32_t grouped) {
  const int32_t length = tokens.length;
  ProjectRows(x, tokens.first, length, head, along, directions, projections_);
  directions_ = directions;
  length_ = length;
  parts_ = parts;
  grouped_ = grouped;
  for (auto* rows : {&order_, &bins_, &below_, &inside_, &above_}) rows->assign(length + kRowPadding, 0);
  values_.resize(length + kRowPadding);
  std::iota(order_.begin(), order_.begin() + length, 0);
  Cut(0, parts, 0);
  for (int32_t part = 0; part < parts; ++part) {
    for (int32_t rank = Begin(part); rank < Begin(part + 1); ++rank) labels[order_[rank]] = part;
  }
}

void Halving::Cut(int32_t first, int32_t last, int depth) {
  if (last - first < 2) return;
  const int32_t unit = last - first > grouped_ ? grouped_ : 1;
  const int32_t middle = (first / unit + last / unit) / 2 * unit;
  SplitAt(Begin(first), Begin(middle), Begin(last), depth);
  Cut(first, middle, depth + 1);
  Cut(middle, last, depth + 1);
}

// Ranks [begin, middle) get the smallest of [begin, end). Only which they are matters, not their order: numbers are
// thrown into bins of equal width, and only the bin that the cut goes through is looked at closely.
void Halving::SplitAt(int32_t begin, int32_t middle, int32_t end, int depth) {
  constexpr int32_t kFew = 64;
  if (middle == begin || middle == end) return;
  int32_t* rows = order_.data() + begin;
  const int32_t count = end - begin, wanted = middle - begin;
  const auto less = [&](int32_t a, int32_t b) { return ComesBefore(a, b, depth); };
  std::array<int32_t, 3> sizes;  // below, inside and above the bin
  const RowSplit split{ProjectionsAt(depth), rows,          count,          wanted,       values_.data(),
                       bins_.data(),         below_.data(), inside_.data(), above_.data()};
  if (count < kFew || !HWY_DYNAMIC_DISPATCH(SplitByBins)(split, sizes)) {
    std::nth_element(rows, rows + wanted, rows + count, less);
    return;
  }
  const auto [below, inside, above] = sizes;
  std::nth_element(inside_.begin(), inside_.begin() + (wanted - below), inside_.begin() + inside, less);
  rows = std::copy_n(below_.begin(), below, rows);
  rows = std::copy_n(inside_.begin(), inside, rows);
  std::copy_n(above_.begin(), above, rows);
}

bool Halving::ComesBefore(int32_t a, int32_t b, int depth) const {
  for (; depth >= 0; --depth) {
    const float* level = ProjectionsAt(depth);
    if (level[a] != level[b]) return level[a] < level[b];
  }
  return a < b;
}

HalvingDirections::HalvingDirections(const ClusterDirections& directions, const AttentionShape& shape)
    : key(directions.key, shape, directions.key_depth), query(directions.query, shape, directions.query_depth) {}

void HalveSequence(const ClusteredAttention& clustered, HeadTensor<const float> query, HeadTensor<const float> key,
                   TokenRange tokens, int head, const HalvingDirections& along, Halving& halving, int32_t* bundles,
                   int32_t* clusters) {
  const int32_t parts = ClustersOf(clustered, tokens.length);
  halving.Run(key, tokens, head, along.key, DepthOf(parts), parts, clusters);
  const int32_t grouped = BundlesOfAGroup(clustered, tokens.length);
  halving.Run(query, tokens, head, along.query, QueryDirections(clustered, tokens.length), clustered.groups * grouped,
              bundles, grouped);
}

}  // namespace lshformer
#endif
