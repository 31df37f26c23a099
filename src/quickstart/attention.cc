#include <algorithm>
#include <chrono>
#include <functional>

#include "base/progress.h"
#include "bench/operands.h"
#include "kernels/counts.h"
#include "quickstart/quickstart.h"

namespace lshformer {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// A sample lasts at least a fifth of a millisecond, a length at most about two seconds.
constexpr double kSampleMs = 0.2, kLengthMs = 2000;
constexpr int kFewestRuns = 5, kMostRuns = 101;
// Two planes may lie close together by chance, and then many more pairs collide: shares are means over this many draws,
// and runs take the draws in turn.
constexpr int kDraws = 16;

// One spec on one sequence.
class Variant {
 public:
  Variant(const AttentionSpec& spec, AttentionOperands& sequence, int64_t length, int heads, int head_dim)
      : spec_(spec), sequence_(sequence) {
    timing_.length = length;
    const bool sparse = IsSparse(spec);
    double pairs = 0, total = 0;
    for (int draw = 0; draw < (sparse ? kDraws : 1); ++draw) {
      draws_.push_back(DrawProjections(spec, sequence.shape(), /*layer=*/0, static_cast<uint64_t>(draw)));
      const PlannedAttention planned = sequence.Plan(spec, draws_.back());
      pairs += static_cast<double>(Counts(*planned.plan).pairs_computed);
      total += static_cast<double>(Counts(*planned.plan).pairs_total);
      timing_.work_bytes = std::max(timing_.work_bytes, ForwardWorkBytes(planned, MultipliedAs(Operands::kFloat32)));
    }
    timing_.cost = CostOfAttention(spec, heads, head_dim, length, pairs / total);
    sequence_.Run(spec_, draws_[0], /*backward=*/false);  // touches all memory once
    const Clock::time_point begin = Clock::now();
    sequence_.Run(spec_, draws_[0], /*backward=*/false);
    const double once = std::max(MillisecondsSince(begin), 1e-4);
    calls_ = std::max(1, static_cast<int>(kSampleMs / once));
    sample_ms_ = once * calls_;
  }
  double sample_ms() const { return sample_ms_; }  // about

  void Sample() {
    const Projections& projections = draws_[next_++ % draws_.size()];
    for (int call = 0; call < calls_; ++call) sequence_.Run(spec_, projections, /*backward=*/false);
  }

  AttentionTiming Finished(const Timing& sample) const {
    AttentionTiming timing = timing_;
    timing.time = {sample.median_ms / calls_, sample.p10_ms / calls_, sample.p90_ms / calls_, sample.runs};
    return timing;
  }

 private:
  const AttentionSpec& spec_;
  AttentionOperands& sequence_;
  std::vector<Projections> draws_;
  size_t next_ = 0;
  int calls_ = 1;
  double sample_ms_ = 0;
  AttentionTiming timing_;
};

}  // namespace

std::vector<std::vector<AttentionTiming>> TimeAttention(const std::vector<AttentionSpec>& specs,
                                                        const std::vector<int64_t>& lengths, int heads, int head_dim,
                                                        uint64_t seed) {
  std::vector<std::vector<AttentionTiming>> timings(specs.size());
  Progress progress("timing attention", static_cast<int64_t>(lengths.size()), "lengths");
  for (const int64_t length : lengths) {
    AttentionOperands sequence(length, /*batch=*/1, heads, head_dim, seed);
    std::vector<Variant> variants;
    double round_ms = 0;
    for (const AttentionSpec& spec : specs) {
      variants.emplace_back(spec, sequence, length, heads, head_dim);
      round_ms += variants.back().sample_ms();
    }
    std::vector<std::function<void()>> samples;
    for (Variant& variant : variants) samples.push_back([&variant] { variant.Sample(); });
    const int runs = std::clamp(static_cast<int>(kLengthMs / round_ms), kFewestRuns, kMostRuns);
    const std::vector<Timing> times = TimeInterleaved(samples, runs);
    for (size_t i = 0; i < specs.size(); ++i) timings[i].push_back(variants[i].Finished(times[i]));
    progress.Update(static_cast<int64_t>(timings[0].size()), std::to_string(length) + " tokens");
  }
  return timings;
}

}  // namespace lshformer
