#include <array>
#include <cstddef>
#include <vector>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/attention.h"

namespace lshformer {
namespace {

// Dot product in sixteen partial sums added in a fixed tree. This file is compiled for the baseline instruction set and
// has no fused multiply-add, so a bucket is the same on every machine, in every batch and at every thread count.
constexpr int kPartialSums = 16;

float Dot(const float* a, const float* b, int count) {
  std::array<float, kPartialSums> sums{};
  int i = 0;
  for (; i + kPartialSums <= count; i += kPartialSums) {
    for (int lane = 0; lane < kPartialSums; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += a[i] * b[i];
  for (int width = kPartialSums / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

struct Hasher {
  const AttentionSpec& spec;
  const SimHashPlanes& planes;
  int head_dim;

  int32_t Bucket(const float* x, int head, int hash) const {
    int64_t sum = 0;
    const int64_t first = (int64_t{head} * spec.hashes + hash) * spec.bands;
    for (int band = 0; band < spec.bands; ++band) {
      const bool bit = Dot(x, planes.planes.data() + (first + band) * head_dim, head_dim) > 0;
      if (bit) sum += planes.coefficients[first + band];
    }
    return static_cast<int32_t>(sum % spec.table_size);
  }
};

std::vector<float> MeanRow(HeadTensor<const float> x, int64_t begin, int64_t end, int head, int head_dim) {
  std::vector<double> sum(head_dim);
  for (int64_t t = begin; t < end; ++t) {
    for (int d = 0; d < head_dim; ++d) sum[d] += x.at(t, head)[d];
  }
  std::vector<float> mean(head_dim);
  for (int d = 0; d < head_dim; ++d) mean[d] = static_cast<float>(sum[d] / static_cast<double>(end - begin));
  return mean;
}

}  // namespace

SimHashPlanes DrawSimHashPlanes(const AttentionSpec& spec, int heads, int head_dim, uint32_t layer, uint64_t step) {
  if (spec.resample == Resample::kNever) step = 0;
  SimHashPlanes drawn;
  drawn.planes.reserve(static_cast<size_t>(heads) * spec.hashes * spec.bands * head_dim);
  for (int head = 0; head < heads; ++head) {
    PhiloxStream normals(StreamKey(spec.seed, step, layer, head, Purpose::kPlanes));
    PhiloxStream integers(StreamKey(spec.seed, step, layer, head, Purpose::kCoefficients));
    for (int64_t i = 0; i < int64_t{spec.hashes} * spec.bands * head_dim; ++i) {
      drawn.planes.push_back(static_cast<float>(normals.Normal()));
    }
    for (int i = 0; i < spec.hashes * spec.bands; ++i) {
      drawn.coefficients.push_back(static_cast<int32_t>(integers.Below(spec.table_size)));
    }
  }
  return drawn;
}

SimHashBuckets HashQueriesAndKeys(const AttentionSpec& spec, const AttentionShape& shape, HeadTensor<const float> query,
                                  HeadTensor<const float> key, const SimHashPlanes& planes) {
  const int64_t tokens = shape.tokens();
  SimHashBuckets buckets;
  buckets.query.resize(static_cast<size_t>(shape.heads) * spec.hashes * tokens);
  buckets.key.resize(buckets.query.size());
  const Hasher hasher{spec, planes, shape.head_dim};
  const int64_t work = tokens * spec.hashes * spec.bands * shape.head_dim / std::max(1, shape.sequences());
  const int64_t grain = 1 + 200'000 / std::max<int64_t>(1, work);
  ParallelFor(int64_t{shape.sequences()} * shape.heads, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> centred(shape.head_dim);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int head = static_cast<int>(unit % shape.heads);
      const int64_t first = shape.cu_seqlens[unit / shape.heads], last = shape.cu_seqlens[unit / shape.heads + 1];
      std::vector<float> mean;
      if (spec.center_keys && last > first) mean = MeanRow(key, first, last, head, shape.head_dim);
      for (int64_t t = first; t < last; ++t) {
        const float* k = key.at(t, head);
        if (spec.center_keys) {
          for (int d = 0; d < shape.head_dim; ++d) centred[d] = k[d] - mean[d];
          k = centred.data();
        }
        for (int hash = 0; hash < spec.hashes; ++hash) {
          const int64_t at = (int64_t{head} * spec.hashes + hash) * tokens + t;
          buckets.query[at] = hasher.Bucket(query.at(t, head), head, hash);
          buckets.key[at] = hasher.Bucket(k, head, hash);
        }
      }
    }
  });
  return buckets;
}

}  // namespace lshformer
