#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/philox.h"
#include "base/progress.h"
#include "cli/quickstart.h"
#include "kernels/attention.h"

namespace lshformer::cli {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::vector<float> NormalNumbers(int64_t count, uint64_t seed, uint64_t stream) {
  PhiloxStream random(StreamKey(seed, 0, 0, 0, Purpose::kBenchmark), stream);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = static_cast<float>(random.Normal());
  return numbers;
}

// The operator on one random sequence.
class Sequence {
 public:
  Sequence(int64_t length, int heads, int head_dim, uint64_t seed)
      : borders_{0, static_cast<int32_t>(length)}, shape_{borders_, heads, head_dim} {
    const int64_t size = length * heads * head_dim;
    query_ = NormalNumbers(size, seed, 0);
    key_ = NormalNumbers(size, seed, 1);
    value_ = NormalNumbers(size, seed, 2);
    out_.resize(static_cast<size_t>(size));
    lse_.resize(static_cast<size_t>(length * heads));
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  AttentionPlanPtr Forward(const AttentionSpec& spec, const SimHashPlanes& planes) {
    AttentionPlanPtr plan;
    if (UsesHash(spec, borders_[1])) {
      const SimHashBuckets buckets = HashQueriesAndKeys(spec, shape_, Of(query_), Of(key_), planes);
      plan = BuildSimHashPlan(spec, shape_, buckets.query, buckets.key);
    } else {
      plan = BuildDensePlan(shape_);
    }
    AttentionForward call;
    call.shape = shape_;
    call.query = Of(query_);
    call.key = Of(key_);
    call.value = Of(value_);
    call.out = {out_.data(), TokenStride(), shape_.head_dim};
    call.lse = lse_.data();
    call.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    call.plan = plan.get();
    RunAttentionForward(call);
    return plan;
  }

 private:
  int64_t TokenStride() const { return int64_t{shape_.heads} * shape_.head_dim; }
  HeadTensor<const float> Of(const std::vector<float>& tensor) const {
    return {tensor.data(), TokenStride(), shape_.head_dim};
  }
  std::vector<int32_t> borders_;
  AttentionShape shape_;
  std::vector<float> query_, key_, value_, out_, lse_;
};

// A sample lasts at least a fifth of a millisecond, a length at most about two seconds.
constexpr double kSampleMs = 0.2, kLengthMs = 2000;
constexpr int kFewestRuns = 5, kMostRuns = 101;

}  // namespace

std::vector<std::vector<AttentionTiming>> TimeAttention(const std::vector<AttentionSpec>& specs,
                                                        const std::vector<int64_t>& lengths, int heads, int head_dim,
                                                        uint64_t seed) {
  std::vector<std::vector<AttentionTiming>> timings(specs.size());
  Progress progress("timing attention", static_cast<int64_t>(lengths.size()), "lengths");
  for (const int64_t length : lengths) {
    Sequence sequence(length, heads, head_dim, seed);
    std::vector<SimHashPlanes> planes;
    std::vector<int> calls;  // of one sample
    double round_ms = 0;     // one sample of each
    for (size_t i = 0; i < specs.size(); ++i) {
      planes.push_back(specs[i].type == AttentionType::kDense ? SimHashPlanes{}
                                                              : DrawSimHashPlanes(specs[i], heads, head_dim, 0, 0));
      const AttentionPlanPtr plan = sequence.Forward(specs[i], planes[i]);  // also warms up
      const Clock::time_point begin = Clock::now();
      sequence.Forward(specs[i], planes[i]);
      const double once = MillisecondsSince(begin);
      calls.push_back(std::max(1, static_cast<int>(kSampleMs / std::max(once, 1e-4))));
      round_ms += once * calls.back();
      const AttentionCounts counts = Counts(*plan);
      AttentionTiming timing;
      timing.length = length;
      timing.cost =
          CostOfAttention(specs[i], heads, head_dim, length,
                          static_cast<double>(counts.pairs_computed) / static_cast<double>(counts.pairs_total));
      timing.work_bytes = WorkBytes(*plan);
      timings[i].push_back(timing);
    }
    const int runs = std::clamp(static_cast<int>(kLengthMs / round_ms), kFewestRuns, kMostRuns);
    std::vector<std::function<void()>> samples;
    for (size_t i = 0; i < specs.size(); ++i) {
      samples.push_back([&, i] {
        for (int call = 0; call < calls[i]; ++call) sequence.Forward(specs[i], planes[i]);
      });
    }
    const std::vector<Timing> times = TimeInterleaved(samples, runs);
    for (size_t i = 0; i < specs.size(); ++i) {
      const double each = 1.0 / calls[i];
      timings[i].back().time = {times[i].median_ms * each, times[i].p10_ms * each, times[i].p90_ms * each, runs};
    }
    progress.Update(static_cast<int64_t>(timings[0].size()), std::to_string(length) + " tokens");
  }
  return timings;
}

}  // namespace lshformer::cli
