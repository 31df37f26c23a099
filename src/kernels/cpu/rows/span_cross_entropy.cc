#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cross_entropy.h"

namespace lshformer {
namespace {

constexpr int64_t kColumns = 2;  // start, end

// The rows of one sequence and the one that is wanted, relative to the first; −1: ignored.
struct WantedRow {
  int64_t begin, count, wanted;
};

std::vector<WantedRow> WantedRows(std::span<const int32_t> cu_seqlens, std::span<const int32_t> positions) {
  std::vector<WantedRow> rows;
  for (size_t b = 0; b < positions.size(); ++b) {
    const int64_t count = cu_seqlens[b + 1] - cu_seqlens[b], position = std::max(0, positions[b]);
    rows.push_back({cu_seqlens[b], count, position < count ? position : -1});
  }
  return rows;
}

// Of one column: its part of the loss; writes its part of `gradient` [T, 2] where given.
double Column(const float* logits, const std::vector<WantedRow>& sequences, float* gradient) {
  const auto wanted =
      std::count_if(sequences.begin(), sequences.end(), [](const WantedRow& one) { return one.wanted >= 0; });
  if (wanted == 0) return 0;
  const double scale = 1.0 / (kColumns * static_cast<double>(wanted));
  double total = 0;
  for (const WantedRow& rows : sequences) {
    if (rows.wanted < 0) continue;
    const float* z = logits + rows.begin * kColumns;
    double largest = z[0], sum = 0;
    for (int64_t i = 1; i < rows.count; ++i) largest = std::max<double>(largest, z[i * kColumns]);
    for (int64_t i = 0; i < rows.count; ++i) sum += std::exp(z[i * kColumns] - largest);
    total += (largest - z[rows.wanted * kColumns]) + std::log(sum);
    if (gradient == nullptr) continue;
    float* g = gradient + rows.begin * kColumns;
    for (int64_t i = 0; i < rows.count; ++i) {
      const double probability = std::exp(z[i * kColumns] - largest) / sum;
      g[i * kColumns] = static_cast<float>(scale * (probability - (i == rows.wanted ? 1 : 0)));
    }
  }
  return total * scale;
}

}  // namespace

double RunSpanCrossEntropy(const SpanCrossEntropyCall& call, float* gradient) {
  double loss = 0;
  for (int64_t column = 0; column < kColumns; ++column) {
    const std::vector<WantedRow> rows = WantedRows(call.cu_seqlens, column == 0 ? call.starts : call.ends);
    loss += Column(call.logits + column, rows, gradient == nullptr ? nullptr : gradient + column);
  }
  return loss;
}

}  // namespace lshformer
