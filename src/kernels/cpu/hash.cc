// SimHash buckets. A dot product is sixteen partial sums without fused multiply-add, added in a fixed tree: a bucket is
// the same on every instruction set, in every batch and at every thread count.
#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include "base/parallel.h"
#include "kernels/attention.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hash.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"

#ifndef LSHFORMER_HASH_TYPES
#define LSHFORMER_HASH_TYPES
namespace lshformer {
namespace {

constexpr int kPartialSums = 16, kPlanesAtATime = 4;

// The planes of one head, all hash functions or one, ready for whole vectors.
struct HeadPlanes {
  const float* planes;          // [hashes · bands, rounded up to a multiple of kPlanesAtATime][padded], aligned
  const int32_t* coefficients;  // [hashes][bands]
  int hashes, bands;
  int64_t table_size;
  bool gray_order;  // whether a bucket is the place of its sign pattern in Gray order
  int head_dim, padded;
};

// The place of a pattern among all in an order where neighbours differ in one bit: bit b is the parity of the pattern's
// bits b and above.
inline int64_t PlaceInGrayOrder(int64_t pattern) {
  for (int shift = 1; shift < 64; shift *= 2) pattern ^= pattern >> shift;
  return pattern;
}

}  // namespace
}  // namespace lshformer
#endif

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// Dot products of x with `count` (2 or 4) planes; writes four floats. Partial sum l of each is Σ x[l + 16 i] plane[l +
// 16 i]; then l += l + 8, l += l + 4, l += l + 2, l += l + 1.
#if HWY_TARGET == HWY_SCALAR
template <int count>
HWY_INLINE void FixedDots(const float* HWY_RESTRICT x, const float* HWY_RESTRICT planes, int padded,
                          float* HWY_RESTRICT dots) {
  for (int p = 0; p < count; ++p, planes += padded) {
    float sums[kPartialSums] = {};
    for (int k = 0; k < padded; ++k) {
      const float product = x[k] * planes[k];
      sums[k % kPartialSums] += product;
    }
    for (int width = kPartialSums / 2; width > 0; width /= 2) {
      for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    dots[p] = sums[0];
  }
}
#else
template <class D>
HWY_INLINE auto FoldToFour(D d, hn::Vec<D> v) {
  if constexpr (HWY_LANES(float) > 4 && hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return FoldToFour(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}

template <int count>
HWY_INLINE void FixedDots(const float* HWY_RESTRICT x, const float* HWY_RESTRICT planes, int padded,
                          float* HWY_RESTRICT dots) {
  const Floats d;
  constexpr int kVectors = kPartialSums / kLanes;
  FloatVec sums[count][kVectors];
  for (int p = 0; p < count; ++p) {
    for (int v = 0; v < kVectors; ++v) sums[p][v] = hn::Zero(d);
  }
  for (int k = 0; k < padded; k += kPartialSums) {
    for (int v = 0; v < kVectors; ++v) {
      const FloatVec part = hn::LoadU(d, x + k + v * kLanes);
      for (int p = 0; p < count; ++p) {
        sums[p][v] = hn::Add(sums[p][v], hn::Mul(part, hn::Load(d, planes + p * padded + k + v * kLanes)));
      }
    }
  }
  const hn::FixedTag<float, 4> four;
  hn::Vec<decltype(four)> folded[count];
  for (int p = 0; p < count; ++p) {
    for (int width = kVectors / 2; width > 0; width /= 2) {
      for (int v = 0; v < width; ++v) sums[p][v] = hn::Add(sums[p][v], sums[p][v + width]);
    }
    folded[p] = FoldToFour(d, sums[p][0]);
  }
  // lanes 0 + 2 and 1 + 3 of two planes side by side, then those of each pair
  const auto first =
      hn::Add(hn::ConcatLowerLower(four, folded[1], folded[0]), hn::ConcatUpperUpper(four, folded[1], folded[0]));
  const auto second = hn::Add(hn::ConcatLowerLower(four, folded[count - 1], folded[count - 2]),
                              hn::ConcatUpperUpper(four, folded[count - 1], folded[count - 2]));
  hn::StoreU(hn::Add(hn::ConcatEven(four, second, first), hn::ConcatOdd(four, second, first)), four, dots);
}
#endif

}  // namespace

// buckets[hash · stride + i] of rows first … last − 1 of `x`, less `mean` where one is given.
void HashRows(const HeadPlanes& head, HeadTensor<const float> x, int head_index, int64_t first, int64_t last,
              const float* mean, int64_t stride, int32_t* buckets) {
  alignas(64) float padded_row[256];
  std::fill_n(padded_row, head.padded, 0.0f);
  const int planes = head.hashes * head.bands;
  float few_dots[32];  // no allocation for the usual few planes
  std::vector<float> many_dots(planes > 32 ? RoundUp(planes, kPlanesAtATime) : 0);
  float* dots = many_dots.empty() ? few_dots : many_dots.data();
  for (int64_t t = first; t < last; ++t) {
    const float* row = x.at(t, head_index);
    if (mean != nullptr || head.head_dim < head.padded) {
      for (int k = 0; k < head.head_dim; ++k) padded_row[k] = mean ? row[k] - mean[k] : row[k];
      row = padded_row;
    }
    for (int p = 0; p < planes; p += kPlanesAtATime) {
      const float* some = head.planes + p * head.padded;
      if (planes - p > 2) {
        FixedDots<4>(row, some, head.padded, dots + p);
      } else {
        FixedDots<2>(row, some, head.padded, dots + p);
      }
    }
    const int32_t* coefficient = head.coefficients;
    const float* dot = dots;
    for (int hash = 0; hash < head.hashes; ++hash) {
      int64_t sum = 0;
      for (int band = 0; band < head.bands; ++band) {
        sum += -static_cast<int32_t>(*dot++ > 0) & *coefficient++;  // a branch would be mispredicted half the time
      }
      if (sum >= head.table_size) sum %= head.table_size;
      buckets[hash * stride + t] = static_cast<int32_t>(head.gray_order ? PlaceInGrayOrder(sum) : sum);
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <hwy/aligned_allocator.h>
namespace lshformer {
HWY_EXPORT(HashRows);
namespace {

std::vector<float> MeanRow(HeadTensor<const float> x, int64_t begin, int64_t end, int head, int head_dim) {
  std::vector<double> sum(head_dim);
  for (int64_t t = begin; t < end; ++t) {
    for (int d = 0; d < head_dim; ++d) sum[d] += x.at(t, head)[d];
  }
  std::vector<float> mean(head_dim);
  for (int d = 0; d < head_dim; ++d) mean[d] = static_cast<float>(sum[d] / static_cast<double>(end - begin));
  return mean;
}

// Tokens that one thread hashes at a time: about 0.1 ms of work.
int64_t TokensAtATime(int64_t planes_per_head, int padded) {
  return std::max<int64_t>(64, int64_t{2'000'000} / (planes_per_head * padded));
}

// Tokens that take the same planes: of one sequence where it has bands of its own, else of any.
struct TokenBlock {
  int64_t first, last;
  int bands;
};

std::vector<TokenBlock> BlocksOf(const AttentionSpec& spec, const AttentionShape& shape, int64_t size) {
  std::vector<TokenBlock> blocks;
  const auto cut = [&](int64_t begin, int64_t end, int bands) {
    for (int64_t first = begin; first < end; first += size)
      blocks.push_back({first, std::min(end, first + size), bands});
  };
  if (spec.bands != 0) {
    cut(0, shape.tokens(), spec.bands);
  } else {
    for (int b = 0; b < shape.sequences(); ++b) {
      const int64_t begin = shape.cu_seqlens[b], end = shape.cu_seqlens[b + 1];
      cut(begin, end, BandsOf(spec, end - begin));
    }
  }
  return blocks;
}

// All planes, copied so that whole vectors read them.
class AlignedPlanes {
 public:
  AlignedPlanes(const AttentionSpec& spec, const AttentionShape& shape, const SimHashPlanes& planes)
      : spec_(spec),
        planes_(planes),
        head_dim_(shape.head_dim),
        padded_((shape.head_dim + kPartialSums - 1) / kPartialSums * kPartialSums),
        // Where sequences may take fewer bands, each hash function begins at a whole group of planes.
        functions_apart_(spec.bands == 0 ? spec.hashes : 1),
        planes_together_(int64_t{spec.hashes} * planes.bands / functions_apart_),
        rows_together_((planes_together_ + kPlanesAtATime - 1) / kPlanesAtATime * kPlanesAtATime) {
    const int64_t rows = rows_together_ * functions_apart_ * shape.heads;
    aligned_ = hwy::AllocateAligned<float>(rows * padded_);
    if (!aligned_) throw std::bad_alloc();
    std::fill_n(aligned_.get(), rows * padded_, 0.0f);
    for (int64_t p = 0; p < planes_together_ * functions_apart_ * shape.heads; ++p) {
      const int64_t row = p / planes_together_ * rows_together_ + p % planes_together_;
      std::copy_n(planes.planes.data() + p * head_dim_, head_dim_, aligned_.get() + row * padded_);
    }
  }

  int padded() const { return padded_; }

  // Buckets of the tokens of a block, as HashRows writes them; buckets: [hashes][stride] of this head.
  void Hash(HeadTensor<const float> x, int head, const TokenBlock& block, const float* mean, int64_t stride,
            int32_t* buckets) const {
    const bool patterns = SignPatternsAreBuckets(spec_);
    for (int f = 0; f < functions_apart_; ++f) {
      const int64_t group = int64_t{head} * functions_apart_ + f;
      const HeadPlanes planes{aligned_.get() + group * rows_together_ * padded_,
                              planes_.coefficients.data() + group * planes_together_,
                              spec_.hashes / functions_apart_,
                              block.bands,
                              patterns ? int64_t{1} << block.bands : spec_.table_size,
                              spec_.pairs == Pairs::kSorted,
                              head_dim_,
                              padded_};
      HWY_DYNAMIC_DISPATCH(HashRows)(planes, x, head, block.first, block.last, mean, stride, buckets + f * stride);
    }
  }

 private:
  const AttentionSpec& spec_;
  const SimHashPlanes& planes_;
  int head_dim_, padded_, functions_apart_;
  int64_t planes_together_, rows_together_;
  hwy::AlignedFreeUniquePtr<float[]> aligned_;
};

}  // namespace

SimHashBuckets HashQueriesAndKeys(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                                  HeadTensor<const float> key, const SimHashPlanes& planes) {
  const int64_t tokens = shape.tokens();
  SimHashBuckets buckets;
  if (tokens == 0) return buckets;
  buckets.query.resize(static_cast<size_t>(shape.heads) * spec.hashes * tokens);
  buckets.key.resize(buckets.query.size());
  const AlignedPlanes aligned(spec, shape, planes);
  const int64_t size = TokensAtATime(int64_t{spec.hashes} * planes.bands, aligned.padded());
  const std::vector<TokenBlock> blocks = BlocksOf(spec, shape, size);
  const auto of_head = [&](std::vector<int32_t>& all, int head) { return all.data() + head * spec.hashes * tokens; };
  // Short sequences are not worth waking a thread: several heads together then make a piece of work.
  const auto count = static_cast<int64_t>(blocks.size());
  const int64_t heads_at_a_time = std::max<int64_t>(1, size * count / tokens);
  ParallelFor(count * shape.heads, heads_at_a_time, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int head = static_cast<int>(item / count);
      const TokenBlock& block = blocks[item % count];
      aligned.Hash(query, head, block, nullptr, tokens, of_head(buckets.query, head));
      if (!spec.center_keys) aligned.Hash(key, head, block, nullptr, tokens, of_head(buckets.key, head));
    }
  });
  if (!spec.center_keys) return buckets;
  ParallelFor(int64_t{shape.sequences()} * shape.heads, heads_at_a_time, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int head = static_cast<int>(unit % shape.heads);
      const int64_t first = shape.cu_seqlens[unit / shape.heads], last = shape.cu_seqlens[unit / shape.heads + 1];
      if (first == last) continue;
      const std::vector<float> mean = MeanRow(key, first, last, head, shape.head_dim);
      aligned.Hash(key, head, {first, last, BandsOf(spec, last - first)}, mean.data(), tokens,
                   of_head(buckets.key, head));
    }
  });
  return buckets;
}

}  // namespace lshformer
#endif
