// SimHash buckets that are sign patterns, or their places in Gray order: rows times hyperplanes as matrix products.
//
// A product is added up over head_dim in order, with fused multiply-add where the instruction set has it: a bucket is
// the same in every batch, at every thread count, and on AVX2 and AVX-512 alike (docs/numerics.md).
#include "kernels/cpu/hashing/patterns.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/cpu/aligned_floats.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hashing/patterns.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/vector_math-inl.h"

#ifndef LSHFORMER_PATTERN_TYPES
#define LSHFORMER_PATTERN_TYPES
namespace lshformer {
namespace {

constexpr int kPatternRows = 64, kPatternVectors = 16;

// The planes of one head, a column each, zeros after the last.
struct PatternPlanes {
  const float* planes;  // [hashes][head_dim][width], aligned
  int hashes, bands, head_dim, width;
  bool gray_order;
};

// The place of a pattern among all in an order where neighbours differ in one bit: bit b is the parity of the pattern's
// bits b and above.
uint32_t PlaceInGrayOrder(uint32_t pattern) {
  for (int shift = 1; shift < 32; shift *= 2) pattern ^= pattern >> shift;
  return pattern;
}

}  // namespace
}  // namespace lshformer
#endif

HWY_BEFORE_NAMESPACE();
namespace lshformer::HWY_NAMESPACE {
namespace {

// Bit b is x[b] > 0.
HWY_INLINE uint32_t SignPattern(const float* HWY_RESTRICT x, int width) {
  const Floats d;
  uint32_t pattern = 0;
  for (int k = 0; k < width; k += kLanes) {
    uint8_t bits[8] = {};  // as many as StoreMaskBits may touch
    hn::StoreMaskBits(d, hn::Gt(hn::Load(d, x + k), hn::Zero(d)), bits);
    pattern |= (uint32_t{bits[0]} | uint32_t{bits[1]} << 8) << k;
  }
  return pattern;
}

}  // namespace

// buckets[hash · stride + t] of rows first … last − 1, at most kPatternRows, less `mean` where one is given. `work`:
// [kPatternRows][head_dim + width], aligned.
void HashPatternRows(const PatternPlanes& head, HeadTensor<const float> x, int head_index, int64_t first, int64_t last,
                     const float* mean, int64_t stride, float* work, int32_t* buckets) {
  const int rows = static_cast<int>(last - first), width = head.width;
  const uint32_t used = (uint32_t{1} << head.bands) - 1;
  float* products = work;
  const float* operand = x.at(first, head_index);
  int64_t operand_stride = x.token_stride;
  for (int r = 0; r < rows; ++r) PrefetchRow(x.at(first + r, head_index), head.head_dim);
  if (mean != nullptr) {
    float* centred = work + kPatternRows * width;
    for (int r = 0; r < rows; ++r) {
      const float* row = x.at(first + r, head_index);
      for (int k = 0; k < head.head_dim; ++k) centred[r * head.head_dim + k] = row[k] - mean[k];
    }
    operand = centred;
    operand_stride = head.head_dim;
  }
  for (int hash = 0; hash < head.hashes; ++hash) {
    const float* planes = head.planes + int64_t{hash} * head.head_dim * width;
    Multiply<Store::kSet, false>({operand, operand_stride}, {planes, width}, {products, width}, rows, width,
                                 head.head_dim);
    int32_t* to = buckets + hash * stride + first;
    for (int r = 0; r < rows; ++r) {
      const uint32_t pattern = SignPattern(products + r * width, width) & used;
      to[r] = static_cast<int32_t>(head.gray_order ? PlaceInGrayOrder(pattern) : pattern);
    }
  }
}

}  // namespace lshformer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(HashPatternRows);
namespace {

// Rows of one sequence, which has bands of its own.
struct Block {
  int sequence, bands;
  int64_t first, last;
};

std::vector<Block> BlocksOf(const SimHashAttention& simhash, const AttentionShape& shape) {
  std::vector<Block> blocks;
  for (int b = 0; b < shape.sequences(); ++b) {
    const int64_t begin = shape.cu_seqlens[b], end = shape.cu_seqlens[b + 1];
    for (int64_t first = begin; first < end; first += kPatternRows)
      blocks.push_back({b, BandsOf(simhash, end - begin), first, std::min(end, first + kPatternRows)});
  }
  return blocks;
}

// All planes as columns: [heads][hashes][head_dim][width].
AlignedFloats Packed(const SimHashPlanes& from, int heads, int hashes, int head_dim, int width) {
  AlignedFloats packed = AllocateFloats(int64_t{heads} * hashes * head_dim * width);
  std::fill_n(packed.get(), int64_t{heads} * hashes * head_dim * width, 0.0f);
  for (int64_t function = 0; function < int64_t{heads} * hashes; ++function) {
    for (int band = 0; band < from.bands; ++band) {
      const float* plane = from.planes.data() + (function * from.bands + band) * head_dim;
      for (int k = 0; k < head_dim; ++k) packed[(function * head_dim + k) * width + band] = plane[k];
    }
  }
  return packed;
}

// Mean keys [sequences, heads, head_dim].
std::vector<float> MeanKeys(const AttentionShape& shape, HeadTensor<const float> key) {
  std::vector<float> means(int64_t{shape.sequences()} * shape.heads * shape.head_dim);
  ParallelFor(int64_t{shape.sequences()} * shape.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = shape.cu_seqlens[unit / shape.heads], last = shape.cu_seqlens[unit / shape.heads + 1];
      if (first == last) continue;
      const std::vector<float> mean = MeanRow(key, first, last, static_cast<int>(unit % shape.heads), shape.head_dim);
      std::copy(mean.begin(), mean.end(), means.begin() + unit * shape.head_dim);
    }
  });
  return means;
}

}  // namespace

Buckets HashSignPatterns(const SimHashAttention& simhash, const AttentionShape& shape, HeadTensor<const float> query,
                         HeadTensor<const float> key, const SimHashPlanes& planes) {
  constexpr int64_t kWorthAThread = 4'000'000;  // operations: about 0.1 ms
  const int64_t tokens = shape.tokens();
  const int width = (planes.bands + kPatternVectors - 1) / kPatternVectors * kPatternVectors;
  Buckets buckets;
  buckets.query.resize(static_cast<size_t>(shape.heads) * simhash.hashes * tokens);
  buckets.key.resize(buckets.query.size());
  const AlignedFloats packed = Packed(planes, shape.heads, simhash.hashes, shape.head_dim, width);
  const std::vector<float> means = simhash.center_keys ? MeanKeys(shape, key) : std::vector<float>();
  const std::vector<Block> blocks = BlocksOf(simhash, shape);
  const auto count = static_cast<int64_t>(blocks.size());
  const int64_t products = int64_t{4} * kPatternRows * width * shape.head_dim * simhash.hashes;
  ParallelFor(count * shape.heads, std::max<int64_t>(1, kWorthAThread / products), [&](int64_t begin, int64_t end) {
    const AlignedFloats work = AllocateFloats(int64_t{kPatternRows} * (width + shape.head_dim));
    for (int64_t item = begin; item < end; ++item) {
      const int head = static_cast<int>(item / count);
      const Block& block = blocks[item % count];
      const PatternPlanes of_head{packed.get() + int64_t{head} * simhash.hashes * shape.head_dim * width,
                                  simhash.hashes,
                                  block.bands,
                                  shape.head_dim,
                                  width,
                                  simhash.pairs == Pairs::kSorted};
      const auto hash = [&](HeadTensor<const float> x, const float* mean, std::vector<int32_t>& to) {
        HWY_DYNAMIC_DISPATCH(HashPatternRows)
        (of_head, x, head, block.first, block.last, mean, tokens, work.get(),
         to.data() + int64_t{head} * simhash.hashes * tokens);
      };
      hash(query, nullptr, buckets.query);
      const int64_t unit = int64_t{block.sequence} * shape.heads + head;
      hash(key, means.empty() ? nullptr : means.data() + unit * shape.head_dim, buckets.key);
    }
  });
  return buckets;
}

}  // namespace lshformer
#endif
