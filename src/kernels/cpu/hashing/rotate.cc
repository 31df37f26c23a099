// Reformer's buckets: queries times random rotations as matrix products, then the largest of ±x of each factor.
//
// A product is added up over head_dim in order, with fused multiply-add where the instruction set has it: a bucket is
// the same in every batch, at every thread count, and on AVX2 and AVX-512 alike (docs/numerics.md).
#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"
#include "kernels/cpu/aligned_floats.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/rotate.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"

#ifndef LSHFORMER_ROTATE_TYPES
#define LSHFORMER_ROTATE_TYPES
namespace lshformer {
namespace {

constexpr int kRowsAtATime = 64, kWholeVectors = 16;

// The rotations of one head for one pair of factors, columns in whole vectors (zeros after the last).
struct HeadRotations {
  const float* rotations;     // [rounds][head_dim][widths[0] + widths[1]], aligned
  std::array<int, 2> halves;  // factor / 2; 0: no second factor
  std::array<int, 2> widths;  // of the halves in whole vectors
  int rounds, head_dim;
  int width() const { return widths[0] + widths[1]; }
};

}  // namespace
}  // namespace lshformer
#endif

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// argmax of [x, −x], x of `count` numbers and then zeros up to `width`; the lowest index on ties, 0 where none is the
// largest (NaN).
HWY_INLINE int LargestOfBothSigns(const float* HWY_RESTRICT x, int count, int width) {
  const Floats d;
  FloatVec most = hn::Abs(hn::Load(d, x));
  for (int k = kLanes; k < width; k += kLanes) most = hn::Max(most, hn::Abs(hn::Load(d, x + k)));
  const FloatVec top = hn::MaxOfLanes(d, most);
  for (int k = 0; k < width; k += kLanes) {
    const intptr_t found = hn::FindFirstTrue(d, hn::Eq(hn::Load(d, x + k), top));
    if (found >= 0) return k + static_cast<int>(found);
  }
  const FloatVec bottom = hn::Neg(top);
  for (int k = 0; k < width; k += kLanes) {
    const intptr_t found = hn::FindFirstTrue(d, hn::Eq(hn::Load(d, x + k), bottom));
    if (found >= 0) return count + k + static_cast<int>(found);
  }
  return 0;
}

}  // namespace

// buckets[round · stride + t] of rows first … last − 1, at most kRowsAtATime. products: [kRowsAtATime][width], aligned.
void HashRotatedRows(const HeadRotations& head, HeadTensor<const float> x, int head_index, int64_t first, int64_t last,
                     int64_t stride, float* products, int32_t* buckets) {
  const int width = head.width(), rows = static_cast<int>(last - first);
  for (int r = 0; r < rows; ++r) PrefetchRow(x.at(first + r, head_index), head.head_dim);
  for (int round = 0; round < head.rounds; ++round) {
    Multiply<Store::kSet, false>({x.at(first, head_index), x.token_stride},
                                 {head.rotations + int64_t{round} * head.head_dim * width, width}, {products, width},
                                 rows, width, head.head_dim);
    int32_t* to = buckets + round * stride + first;
    for (int r = 0; r < rows; ++r) {
      const float* row = products + int64_t{r} * width;
      int bucket = LargestOfBothSigns(row, head.halves[0], head.widths[0]);
      if (head.halves[1] > 0)
        bucket += 2 * head.halves[0] * LargestOfBothSigns(row + head.widths[0], head.halves[1], head.widths[1]);
      to[r] = bucket;
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(HashRotatedRows);
namespace {

// Sequences whose bucket counts agree, in blocks of rows.
struct Block {
  int64_t first, last;
};

class RotationHash {
 public:
  RotationHash(const AttentionShape& shape, int rounds, const ReformerRotations& rotations, std::array<int, 2> factors)
      : shape_(shape) {
    head_.rounds = rounds;
    head_.head_dim = shape.head_dim;
    head_.halves = {factors[0] / 2, factors[1] / 2};
    for (int f = 0; f < 2; ++f) head_.widths[f] = (head_.halves[f] + kWholeVectors - 1) / kWholeVectors * kWholeVectors;
    Pack(rotations);
  }

  void Run(const std::vector<Block>& blocks, HeadTensor<const float> query, int32_t* buckets) const {
    const auto count = static_cast<int64_t>(blocks.size());
    const int64_t products = int64_t{2} * kRowsAtATime * head_.width() * head_.head_dim * head_.rounds;
    const int64_t grain = std::max<int64_t>(1, kWorthAThread / products);
    ParallelFor(count * shape_.heads, grain, [&](int64_t begin, int64_t end) {
      const AlignedFloats work = AllocateFloats(int64_t{kRowsAtATime} * head_.width());
      for (int64_t item = begin; item < end; ++item) {
        const int head = static_cast<int>(item / count);
        const Block& block = blocks[item % count];
        HeadRotations of_head = head_;
        of_head.rotations = packed_.get() + head * MatrixFloats();
        HWY_DYNAMIC_DISPATCH(HashRotatedRows)
        (of_head, query, head, block.first, block.last, shape_.tokens(), work.get(),
         buckets + int64_t{head} * head_.rounds * shape_.tokens());
      }
    });
  }

 private:
  static constexpr int64_t kWorthAThread = 4'000'000;  // operations: about 0.1 ms

  int64_t MatrixFloats() const { return int64_t{head_.rounds} * head_.head_dim * head_.width(); }

  void Pack(const ReformerRotations& from) {
    packed_ = AllocateFloats(shape_.heads * MatrixFloats());
    float* to = packed_.get();
    std::fill_n(to, shape_.heads * MatrixFloats(), 0.0f);
    const float* row = from.rotations.data();
    for (int64_t i = 0; i < int64_t{shape_.heads} * head_.rounds * head_.head_dim; ++i) {
      std::copy_n(row, head_.halves[0], to);
      std::copy_n(row + head_.halves[0], head_.halves[1], to + head_.widths[0]);
      row += from.columns;
      to += head_.width();
    }
  }

  AttentionShape shape_;
  HeadRotations head_{};
  AlignedFloats packed_;  // [heads][rounds][head_dim][width]
};

}  // namespace

std::vector<int32_t> HashByRotation(const AttentionSpec& spec, const AttentionShape& shape,
                                    HeadTensor<const float> query, const ReformerRotations& rotations,
                                    bool needed_only) {
  const auto& reformer = As<ReformerAttention>(spec);
  std::vector<int32_t> buckets(static_cast<size_t>(shape.heads) * reformer.rounds * shape.tokens());
  std::vector<std::pair<std::array<int, 2>, std::vector<Block>>> groups;  // by bucket count
  for (int b = 0; b < shape.sequences(); ++b) {
    const int64_t begin = shape.cu_seqlens[b], end = shape.cu_seqlens[b + 1];
    if (begin == end || (needed_only && !IsSparseAt(spec, static_cast<int>(end - begin)))) continue;
    const std::array<int, 2> factors = BucketFactors(reformer, end - begin);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == factors; });
    if (group == groups.end()) group = groups.insert(group, {factors, {}});
    for (int64_t first = begin; first < end; first += kRowsAtATime)
      group->second.push_back({first, std::min(end, first + kRowsAtATime)});
  }
  for (const auto& [factors, blocks] : groups)
    RotationHash(shape, reformer.rounds, rotations, factors).Run(blocks, query, buckets.data());
  return buckets;
}

}  // namespace lshformer
#endif
