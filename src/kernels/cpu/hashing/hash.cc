// SimHash buckets of drawn coefficients; sign patterns as they are: patterns.cc. A dot product is sixteen partial sums
// without fused multiply-add, added in a fixed tree: a bucket is the same on every instruction set, in every batch and
// at every thread count.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernels/cpu/aligned_floats.h"
#include "kernels/cpu/hashing/clusters.h"
#include "kernels/cpu/hashing/patterns.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/hash.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"

#ifndef LSHFORMER_HASH_TYPES
#define LSHFORMER_HASH_TYPES
namespace lshformer {
namespace {

constexpr int kPartialSums = 16, kPlanesAtATime = 4;

// The planes of one head, ready for whole vectors.
struct HeadPlanes {
  const float* planes;          // [hashes · bands, rounded up to a multiple of kPlanesAtATime][padded], aligned
  const int32_t* coefficients;  // [hashes][bands]
  int hashes, bands, table_size, head_dim, padded;
};

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
    if (t + kRowsAhead < last) PrefetchRow(x.at(t + kRowsAhead, head_index), head.head_dim);
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
      buckets[hash * stride + t] = static_cast<int32_t>(sum < head.table_size ? sum : sum % head.table_size);
    }
  }
}

// to[l · length + i] of ProjectRows; directions: [depth rounded up to kPlanesAtATime][padded].
void Project(HeadTensor<const float> x, int64_t first, int32_t length, int head, const AlignedDirections& along,
             int depth, float* to) {
  alignas(64) float row[256];
  std::fill_n(row, along.padded(), 0.0f);
  const float* directions = along.Of(head);
  for (int32_t i = 0; i < length; ++i) {
    const float* from = x.at(first + i, head);
    if (i + kRowsAhead < length) PrefetchRow(x.at(first + i + kRowsAhead, head), along.head_dim());
    if (along.head_dim() < along.padded()) from = std::copy_n(from, along.head_dim(), row) - along.head_dim();
    for (int l = 0; l < depth; l += kPlanesAtATime) {
      float dots[kPlanesAtATime];
      FixedDots<kPlanesAtATime>(from, directions + l * along.padded(), along.padded(), dots);
      for (int p = 0; p < std::min(kPlanesAtATime, depth - l); ++p)
        to[int64_t{l + p} * length + i] = std::isnan(dots[p]) ? std::numeric_limits<float>::infinity() : dots[p];
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <hwy/aligned_allocator.h>
namespace lshformer {
HWY_EXPORT(HashRows);
HWY_EXPORT(Project);

AlignedDirections::AlignedDirections(const std::vector<float>& directions, const AttentionShape& shape, int depth)
    : head_dim_(shape.head_dim),
      padded_((shape.head_dim + kPartialSums - 1) / kPartialSums * kPartialSums),
      rows_((depth + kPlanesAtATime - 1) / kPlanesAtATime * kPlanesAtATime),
      aligned_(AllocateFloats(std::max<int64_t>(1, int64_t{shape.heads} * rows_ * padded_))) {
  std::fill_n(aligned_.get(), int64_t{shape.heads} * rows_ * padded_, 0.0f);
  for (int64_t from = 0; from < static_cast<int64_t>(directions.size()); ++from) {
    const int64_t level = from % depth, d = from / depth % head_dim_, head = from / depth / head_dim_;
    aligned_[(head * rows_ + level) * padded_ + d] = directions[from];
  }
}

void ProjectRows(HeadTensor<const float> x, int64_t first, int32_t length, int head, const AlignedDirections& along,
                 int depth, std::vector<float>& to) {
  to.resize(int64_t{depth} * length);
  HWY_DYNAMIC_DISPATCH(Project)(x, first, length, head, along, depth, to.data());
}

std::vector<float> MeanRow(HeadTensor<const float> x, int64_t begin, int64_t end, int head, int head_dim) {
  std::vector<double> sum(head_dim);
  for (int64_t t = begin; t < end; ++t) {
    for (int d = 0; d < head_dim; ++d) sum[d] += x.at(t, head)[d];
  }
  std::vector<float> mean(head_dim);
  for (int d = 0; d < head_dim; ++d) mean[d] = static_cast<float>(sum[d] / static_cast<double>(end - begin));
  return mean;
}

namespace {

// Tokens that one thread hashes at a time: about 0.1 ms of work.
int64_t TokensAtATime(const SimHashAttention& simhash, int padded) {
  return std::max<int64_t>(64, int64_t{2'000'000} / (int64_t{simhash.hashes} * simhash.bands * padded));
}

}  // namespace

Buckets HashQueriesAndKeys(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                           HeadTensor<const float> key, const SimHashPlanes& planes) {
  const auto& simhash = As<SimHashAttention>(spec);
  const int64_t tokens = shape.tokens();
  Buckets buckets;
  if (tokens == 0) return buckets;
  if (SignPatternsAreBuckets(simhash)) return HashSignPatterns(simhash, shape, query, key, planes);
  buckets.query.resize(static_cast<size_t>(shape.heads) * simhash.hashes * tokens);
  buckets.key.resize(buckets.query.size());
  const int padded = (shape.head_dim + kPartialSums - 1) / kPartialSums * kPartialSums;
  const int64_t planes_per_head = int64_t{simhash.hashes} * simhash.bands;
  const int64_t rows_per_head = (planes_per_head + kPlanesAtATime - 1) / kPlanesAtATime * kPlanesAtATime;
  const AlignedFloats aligned = AllocateFloats(rows_per_head * shape.heads * padded);
  std::fill_n(aligned.get(), rows_per_head * shape.heads * padded, 0.0f);
  for (int64_t p = 0; p < planes_per_head * shape.heads; ++p) {
    const int64_t row = p / planes_per_head * rows_per_head + p % planes_per_head;
    std::copy_n(planes.planes.data() + p * shape.head_dim, shape.head_dim, aligned.get() + row * padded);
  }
  const auto head_planes = [&](int head) {
    return HeadPlanes{aligned.get() + head * rows_per_head * padded,
                      planes.coefficients.data() + head * planes_per_head,
                      simhash.hashes,
                      simhash.bands,
                      simhash.table_size,
                      shape.head_dim,
                      padded};
  };
  const int64_t block = TokensAtATime(simhash, padded), blocks = (tokens + block - 1) / block;
  // Short sequences are not worth waking a thread: several heads together then make a piece of work.
  const int64_t heads_at_a_time = std::max<int64_t>(1, block / tokens);
  ParallelFor(blocks * shape.heads, heads_at_a_time, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int head = static_cast<int>(item / blocks);
      const int64_t first = item % blocks * block, last = std::min(tokens, first + block);
      const HeadPlanes planes_of_head = head_planes(head);
      int32_t* query_buckets = buckets.query.data() + int64_t{head} * simhash.hashes * tokens;
      HWY_DYNAMIC_DISPATCH(HashRows)(planes_of_head, query, head, first, last, nullptr, tokens, query_buckets);
      if (simhash.center_keys) continue;
      int32_t* key_buckets = buckets.key.data() + int64_t{head} * simhash.hashes * tokens;
      HWY_DYNAMIC_DISPATCH(HashRows)(planes_of_head, key, head, first, last, nullptr, tokens, key_buckets);
    }
  });
  if (!simhash.center_keys) return buckets;
  ParallelFor(int64_t{shape.sequences()} * shape.heads, heads_at_a_time, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int head = static_cast<int>(unit % shape.heads);
      const int64_t first = shape.cu_seqlens[unit / shape.heads], last = shape.cu_seqlens[unit / shape.heads + 1];
      if (first == last) continue;
      const std::vector<float> mean = MeanRow(key, first, last, head, shape.head_dim);
      HWY_DYNAMIC_DISPATCH(HashRows)
      (head_planes(head), key, head, first, last, mean.data(), tokens,
       buckets.key.data() + int64_t{head} * simhash.hashes * tokens);
    }
  });
  return buckets;
}

}  // namespace lshformer
#endif
