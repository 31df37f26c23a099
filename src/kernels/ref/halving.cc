// Groups of queries and clusters of keys, each range sorted as a whole before it is cut.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/ref/clustered.h"

namespace lshformer::ref {
namespace {

// Labels of one sequence's rows: parts by halves, each sorted as a whole; between groups of parts first.
void Halve(const std::vector<std::vector<double>>& levels, int32_t first, int32_t last, int depth, int32_t parts,
           int32_t grouped, std::vector<int32_t> order, int32_t* labels) {
  const auto length = static_cast<int64_t>(levels.empty() ? order.size() : levels[0].size());
  const auto begin = [&](int64_t part) { return (part * length + parts - 1) / parts; };
  if (last - first < 2) {
    for (const int32_t row : order) labels[row] = first;
    return;
  }
  const std::vector<double>& along = levels[depth % levels.size()];
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return along[a] < along[b]; });
  const int32_t unit = last - first > grouped ? grouped : 1, middle = (first / unit + last / unit) / 2 * unit;
  const auto cut = order.begin() + (begin(middle) - begin(first));
  Halve(levels, first, middle, depth + 1, parts, grouped, {order.begin(), cut}, labels);
  Halve(levels, middle, last, depth + 1, parts, grouped, {cut, order.end()}, labels);
}

}  // namespace

Buckets GroupByHalving(const Inputs& in, const ClusterDirections& directions) {
  const AttentionShape& shape = in.shape;
  const int64_t tokens = shape.tokens();
  Buckets buckets{std::vector<int32_t>(shape.heads * tokens), std::vector<int32_t>(shape.heads * tokens)};
  for (int b = 0; b < shape.sequences(); ++b) {
    const int64_t first = shape.cu_seqlens[b], length = shape.cu_seqlens[b + 1] - first;
    for (int head = 0; head < shape.heads; ++head) {
      if (!IsSparseAt(OfHead(in.spec, head), static_cast<int>(length))) continue;
      const ClusteredAttention& clustered = *ClusteredOf(in.spec, head);
      const auto halve = [&](std::span<const double> rows, const std::vector<float>& along, int depth, int taken,
                             int32_t parts, int32_t grouped, std::vector<int32_t>& labels) {
        std::vector<std::vector<double>> levels(taken, std::vector<double>(length, 0.0));
        for (size_t l = 0; l < levels.size(); ++l) {
          for (int64_t i = 0; i < length; ++i) {
            for (int d = 0; d < shape.head_dim; ++d)
              levels[l][i] += rows[((first + i) * shape.heads + head) * shape.head_dim + d] *
                              along[(int64_t{head} * shape.head_dim + d) * depth + l];
            if (std::isnan(levels[l][i])) levels[l][i] = std::numeric_limits<double>::infinity();
          }
        }
        std::vector<int32_t> order(length);
        std::iota(order.begin(), order.end(), 0);
        Halve(levels, 0, parts, 0, parts, grouped, order, labels.data() + head * tokens + first);
      };
      const int32_t clusters = ClustersOf(clustered, length), bundles = BundlesOfAGroup(clustered, length);
      halve(in.key, directions.key, directions.key_depth, DepthOf(clusters), clusters, 1, buckets.key);
      halve(in.query, directions.query, directions.query_depth, QueryDirections(clustered, length),
            clustered.groups * bundles, bundles, buckets.query);
    }
  }
  return buckets;
}

}  // namespace lshformer::ref
