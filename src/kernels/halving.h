// Rows cut into parts of equal size by halves (kernels/attention.h, HashByHalving).
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace lshformer {

// One sequence under one head. Kept between calls for its memory.
class Halving {
 public:
  // projections: [directions][length], no NaN, that cuts take in turn; labels: [length]. Cuts go between groups of
  // `grouped` parts first (parts: a multiple), then through them.
  void Run(const float* projections, int directions, int32_t length, int32_t parts, int32_t* labels,
           int32_t grouped = 1) {
    projections_ = projections;
    directions_ = directions;
    length_ = length;
    parts_ = parts;
    grouped_ = grouped;
    for (auto* rows : {&order_, &below_, &middle_, &above_}) rows->resize(length);
    bins_.resize(length);
    std::iota(order_.begin(), order_.end(), 0);
    Cut(0, parts, 0);
    for (int32_t part = 0; part < parts; ++part) {
      for (int32_t rank = Begin(part); rank < Begin(part + 1); ++rank) labels[order_[rank]] = part;
    }
  }

 private:
  static constexpr int kBins = 64;

  int32_t Begin(int32_t part) const { return static_cast<int32_t>((int64_t{part} * length_ + parts_ - 1) / parts_); }

  void Cut(int32_t first, int32_t last, int depth) {
    if (last - first < 2) return;
    const int32_t unit = last - first > grouped_ ? grouped_ : 1;
    const int32_t middle = (first / unit + last / unit) / 2 * unit;
    SplitAt(Begin(first), Begin(middle), Begin(last), depth);
    Cut(first, middle, depth + 1);
    Cut(middle, last, depth + 1);
  }

  // Ranks [begin, middle) get the smallest of [begin, end). Only which they are matters, not their order: numbers are
  // thrown into bins of equal width, and only the bin that the cut goes through is looked at closely.
  void SplitAt(int32_t begin, int32_t middle, int32_t end, int depth) {
    if (middle == begin || middle == end) return;
    int32_t* rows = order_.data() + begin;
    const int32_t count = end - begin, wanted = middle - begin;
    const float* level = ProjectionsAt(depth);
    const auto less = [&](int32_t a, int32_t b) { return ComesBefore(a, b, depth); };
    float low = level[rows[0]], high = low;
    for (int32_t i = 0; i < count; ++i) {
      low = std::min(low, level[rows[i]]);
      high = std::max(high, level[rows[i]]);
    }
    const float scale = (kBins - 1) / (high - low);
    if (count < kBins || !std::isfinite(scale) || !std::isfinite(low)) {  // few, all alike, or not numbers
      std::nth_element(rows, rows + wanted, rows + count, less);
      return;
    }
    std::array<int32_t, kBins> sizes{};
    for (int32_t i = 0; i < count; ++i) {
      bins_[i] = static_cast<uint8_t>((level[rows[i]] - low) * scale);  // monotonic: equal numbers share a bin
      ++sizes[bins_[i]];
    }
    int32_t before = 0;
    uint8_t bin = 0;
    while (before + sizes[bin] <= wanted) before += sizes[bin++];
    int32_t below = 0, inside = 0, above = 0;
    for (int32_t i = 0; i < count; ++i) {  // without branches, which nobody could foretell
      below_[below] = middle_[inside] = above_[above] = rows[i];
      below += bins_[i] < bin ? 1 : 0;
      inside += bins_[i] == bin ? 1 : 0;
      above += bins_[i] > bin ? 1 : 0;
    }
    std::nth_element(middle_.begin(), middle_.begin() + (wanted - before), middle_.begin() + inside, less);
    rows = std::copy_n(below_.begin(), below, rows);
    rows = std::copy_n(middle_.begin(), inside, rows);
    std::copy_n(above_.begin(), above, rows);
  }

  // Equal numbers keep the order that they had, by the levels above.
  bool ComesBefore(int32_t a, int32_t b, int depth) const {
    for (; depth >= 0; --depth) {
      const float* level = ProjectionsAt(depth);
      if (level[a] != level[b]) return level[a] < level[b];
    }
    return a < b;
  }

  const float* ProjectionsAt(int depth) const { return projections_ + int64_t{depth % directions_} * length_; }

  const float* projections_ = nullptr;
  int directions_ = 1;
  int32_t length_ = 0, parts_ = 0, grouped_ = 1;
  std::vector<int32_t> order_, below_, middle_, above_;
  std::vector<uint8_t> bins_;
};

}  // namespace lshformer
