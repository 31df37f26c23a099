#include "convert/thresholds.h"

#include <array>
#include <cstddef>

namespace lshformer {
namespace {

constexpr size_t kThresholdTexts = 2;                // the pairs of all layers and heads of one say it already
constexpr int64_t kThresholdPairs = kPartPairs / 2;  // of them
constexpr double kFirstTried = -6, kTriedStep = 1;   // thresholds that are tried
constexpr int kTried = 11;                           // up to 4: a share of 1 and a spread of 55
using PairsOfTried = std::array<double, kTried>;     // by threshold

// Where pairs, which fall with the threshold, come down to `wanted`; between two that were tried on a straight line.
double Reaching(const PairsOfTried& pairs, double wanted) {
  if (pairs.front() <= wanted) return kFirstTried;
  for (int i = 1; i < kTried; ++i) {
    if (pairs[i] > wanted) continue;
    const double part = (pairs[i - 1] - wanted) / (pairs[i - 1] - pairs[i]);
    return kFirstTried + kTriedStep * (i - 1 + part);
  }
  return kFirstTried + kTriedStep * (kTried - 1);
}

}  // namespace

std::vector<double> FindThresholds(Model& exact, const CalibrationTexts& texts, const LayerDirections& directions,
                                   const std::vector<AttentionSpec>& specs) {
  std::vector<double> wanted(specs.size(), 0.0);
  std::vector<PairsOfTried> tried(specs.size(), PairsOfTried{});
  std::vector<bool> sparse(specs.size(), false);
  if (specs.empty()) return {};
  VisitAttention(exact, texts, FirstOf(texts, texts.fitted, kThresholdTexts, kThresholdPairs), "thresholds",
                 [&](const AttentionSite& site) {
                   if (!IsConverted(*site.options.spec)) return torch::Tensor();
                   const auto pairs = [&](const AttentionSpec& spec) {
                     AttentionCounts counts;
                     AttendAs(site, spec, directions, &counts);
                     return static_cast<double>(counts.pairs_computed);
                   };
                   const auto length = static_cast<int>(site.qkv.size(0));
                   for (size_t s = 0; s < specs.size(); ++s) {
                     if (!IsSparseAt(specs[s], length)) continue;
                     sparse[s] = true;
                     AttentionSpec spec = specs[s];
                     As<ClusteredAttention>(spec).threshold.reset();
                     wanted[s] += pairs(spec);
                     for (int i = 0; i < kTried; ++i) {
                       As<ClusteredAttention>(spec).threshold = kFirstTried + kTriedStep * i;
                       tried[s][i] += pairs(spec);
                     }
                   }
                   return torch::Tensor();
                 });
  std::vector<double> thresholds;
  for (size_t s = 0; s < specs.size(); ++s) thresholds.push_back(sparse[s] ? Reaching(tried[s], wanted[s]) : 0);
  return thresholds;
}

}  // namespace lshformer
