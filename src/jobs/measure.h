// Timings: variants in turn, and what the machine can do at best, measured in the same run.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "attention/spec.h"
#include "base/json.h"

namespace lshformer {

struct Timing {
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  int runs = 0;
};

// Every round runs each variant once, in order, so that a busy moment hits all alike; one round before is not counted.
// Milliseconds [variants][runs], in order of time; an Interrupted between two runs when a signal asks to stop. Progress
// is shown under `title`; "": none.
std::vector<std::vector<double>> SampleInterleaved(const std::vector<std::function<void()>>& variants, int runs,
                                                   const std::string& title = "");
Timing TimingOf(std::vector<double> samples);  // at least one
std::vector<Timing> TimeInterleaved(const std::vector<std::function<void()>>& variants, int runs,
                                    const std::string& title = "");
void AddTiming(const Timing& timing, Json& row);  // "median_ms", "p10_ms", "p90_ms", "runs"

// {"cpu", "isa", "threads", "gemm_gflops", "memory_gbps"}: the rate of our float32 product (kernels/matmul.h), 2048³,
// and a = b + s·c over arrays larger than the caches. Without probes the two rates are null.
Json DescribeMachine(bool probes);

// What a benchmark found.
struct BenchResult {
  Json machine;               // as DescribeMachine
  Json rows = Json::array();  // one object a variant, length and direction
};

// In order, each once: a table has one row for each.
template <class Value>
std::vector<Value> Distinct(const std::vector<Value>& values) {
  std::vector<Value> distinct;
  for (const Value& value : values)
    if (std::find(distinct.begin(), distinct.end(), value) == distinct.end()) distinct.push_back(value);
  return distinct;
}

// Unique names: the type, and where several specs are of one type what tells them apart: "dense", "reformer rounds 1",
// "reformer rounds 4". Equal specs are numbered: "simhash", "simhash-2", …
std::vector<std::string> VariantNames(const std::vector<AttentionSpec>& specs);

}  // namespace lshformer
