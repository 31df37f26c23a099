#include "bench/crossing.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "jobs/measure.h"

namespace lshformer {
namespace {

constexpr double kDoubt = 0.05;  // of each bound
constexpr int kEnoughSteps = 2;  // on which sparse attention pays in a row; one alone may be luck
constexpr int kTries = 3;        // at a length where noise hides the answer
constexpr int kShortest = 16;    // tokens
constexpr int kFinest = 8;       // tokens; the share of the length is 1/16

// How many of `count` sorted samples may lie beyond a bound of their median: the largest k with
// P(at most k − 1 of them are on that side of the true median) ≤ kDoubt. Each is with probability 1/2.
int SamplesBeyond(int count) {
  double chance = std::pow(0.5, count), sum = 0;  // of exactly k, of up to k
  for (int k = 0; k <= count; ++k) {
    sum += chance;
    if (sum > kDoubt) return k;
    chance *= static_cast<double>(count - k) / (k + 1);
  }
  return count;
}

}  // namespace

Comparison Compare(const std::vector<double>& exact_ms, const std::vector<double>& sparse_ms) {
  if (exact_ms.empty() || exact_ms.size() != sparse_ms.size())
    Fail("timings: {} exact runs and {} sparse ones", exact_ms.size(), sparse_ms.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < exact_ms.size(); ++i) ratios.push_back(sparse_ms[i] / exact_ms[i]);
  std::sort(ratios.begin(), ratios.end());
  const int count = static_cast<int>(ratios.size()), beyond = std::max(0, SamplesBeyond(count) - 1);
  Comparison comparison;
  comparison.exact_ms = TimingOf(exact_ms).median_ms;
  comparison.sparse_ms = TimingOf(sparse_ms).median_ms;
  comparison.ratio = TimingOf(ratios).median_ms;
  comparison.ratio_low = ratios[static_cast<size_t>(beyond)];
  comparison.ratio_high = ratios[static_cast<size_t>(count - 1 - beyond)];
  comparison.runs = count;
  return comparison;
}

int64_t ShortestToMeasure(const AttentionSpec& spec) { return std::max<int64_t>(kShortest, ShortestToPlan(spec)); }

std::vector<int> Ladder(int shortest, int longest) {
  std::vector<int> steps{shortest};
  int64_t step = 1;
  while (step <= shortest) step *= 2;
  for (; step < longest; step *= 2) steps.push_back(static_cast<int>(step));
  if (longest > shortest) steps.push_back(longest);
  return steps;
}

Crossing FindCrossing(int shortest, int longest, const std::function<Comparison(int)>& measure) {
  Crossing crossing;
  const auto pays = [&](int length) {
    Comparison times = measure(length);
    for (int again = 1; again < kTries && times.CannotTell(); ++again) times = measure(length);
    crossing.points.push_back({length, times});
    return times.Pays();
  };
  int low = 0, high = 0, in_a_row = 0;  // hashing does not pay at `low`; it does at `high` and on the steps after it
  for (const int step : Ladder(shortest, longest)) {
    if (!pays(step)) {
      low = step;
      in_a_row = 0;
      continue;
    }
    if (++in_a_row == 1) high = step;
    if (in_a_row == kEnoughSteps) break;
  }
  if (in_a_row > 0) {
    while (low > 0 && high - low > std::max(kFinest, high / 16)) {
      const int middle = low + (high - low) / 2;
      (pays(middle) ? high : low) = middle;
    }
    crossing.length = high;
  }
  crossing.cannot_tell = in_a_row == 0 && crossing.points.back().times.CannotTell();
  std::sort(crossing.points.begin(), crossing.points.end(),
            [](const auto& a, const auto& b) { return a.length < b.length; });
  return crossing;
}

}  // namespace lshformer
