#include "jobs/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "base/parallel.h"
#include "base/progress.h"
#include "base/signals.h"
#include "jobs/build_info.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"

namespace lshformer {
namespace {

double Milliseconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// The value below which a share of the sorted samples lies; between two samples linear.
double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

constexpr int kProbeRuns = 5;

double GemmGflops() {
  constexpr int64_t kSize = 2048;
  const std::vector<float> a(kSize * kSize, 1.0f), b(kSize * kSize, 0.5f);
  std::vector<float> c(kSize * kSize);
  MatrixProduct product;
  product.rows = product.columns = product.inner = kSize;
  product.a = {a.data(), kSize, 1};
  product.b = {b.data(), kSize, 1};
  product.c = c.data();
  product.c_stride = kSize;
  product.inner_is_tokens = true;  // one call, whatever the number of rows
  const Timing timing = TimeInterleaved({[&] { Multiply(product); }}, kProbeRuns).front();
  return 2.0 * kSize * kSize * kSize / timing.median_ms / 1e6;
}

double MemoryGbps() {
  constexpr int64_t kFloats = int64_t{1} << 25;  // 128 MiB an array
  std::vector<float> a(kFloats), b(kFloats, 1.0f), c(kFloats, 2.0f);
  const auto triad = [&] {
    ParallelFor(kFloats, int64_t{1} << 20, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0f * c[i];
    });
  };
  return 3.0 * sizeof(float) * kFloats / TimeInterleaved({triad}, kProbeRuns).front().median_ms / 1e6;
}

}  // namespace

std::vector<std::vector<double>> SampleInterleaved(const std::vector<std::function<void()>>& variants, int runs,
                                                   const std::string& title) {
  std::vector<std::vector<double>> samples(variants.size());
  std::optional<Progress> progress;
  if (!title.empty()) progress.emplace(title, static_cast<int64_t>(variants.size()) * (runs + 1), "runs");
  int64_t done = 0;
  for (int run = -1; run < runs; ++run) {
    for (size_t v = 0; v < variants.size(); ++v) {
      const double elapsed = Milliseconds(variants[v]);
      if (run >= 0) samples[v].push_back(elapsed);
      if (progress) progress->Update(++done);
      ThrowIfStopped("timing");
    }
  }
  return samples;
}

Timing TimingOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {Quantile(samples, 0.5), Quantile(samples, 0.1), Quantile(samples, 0.9), static_cast<int>(samples.size())};
}

std::vector<Timing> TimeInterleaved(const std::vector<std::function<void()>>& variants, int runs,
                                    const std::string& title) {
  std::vector<Timing> timings;
  for (std::vector<double>& samples : SampleInterleaved(variants, runs, title))
    timings.push_back(TimingOf(std::move(samples)));
  return timings;
}

void AddTiming(const Timing& timing, Json& row) {
  row["median_ms"] = timing.median_ms;
  row["p10_ms"] = timing.p10_ms;
  row["p90_ms"] = timing.p90_ms;
  row["runs"] = timing.runs;
}

Json DescribeMachine(bool probes) {
  Json machine = {{"cpu", CpuName()},
                  {"isa", ActiveIsa()},
                  {"threads", Threads()},
                  {"gemm_gflops", nullptr},
                  {"memory_gbps", nullptr}};
  if (probes) {
    machine["gemm_gflops"] = GemmGflops();
    machine["memory_gbps"] = MemoryGbps();
  }
  return machine;
}

namespace {

// "rounds 1, chunk 32": the keys of `spec` whose values are not those of all `others` of its type and pairs, and where
// there are others at all, those that are not the defaults.
std::string WhatDiffers(const AttentionSpec& spec, const std::vector<AttentionSpec>& others) {
  std::string text;
  const Json mine = ToJson(spec);
  if (mine.is_array()) return "by head";
  Json usual{{"type", mine["type"]}};
  if (mine.contains("pairs")) usual["pairs"] = mine["pairs"];
  usual = ToJson(ParseAttentionSpec(usual, "defaults"));
  usual["seed"] = spec.seed;
  if (mine.contains("pairs")) usual["pairs"] = "full";
  for (const auto& [key, value] : mine.items()) {
    const bool differs =
        std::any_of(others.begin(), others.end(), [&, &k = key, &v = value](const AttentionSpec& other) {
          const Json theirs = ToJson(other);
          if (theirs.is_array()) return false;
          return theirs.value("pairs", Json()) == mine.value("pairs", Json()) &&
                 (!theirs.contains(k) || theirs[k] != v);
        });
    const bool unusual = others.size() > 1 && (!usual.contains(key) || usual[key] != value);
    // An object of measured lengths is no name; what it leads to is "min_length".
    if (!(differs || unusual) || value.is_object()) continue;
    text += (text.empty() ? "" : ", ") + key + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace

std::vector<std::string> VariantNames(const std::vector<AttentionSpec>& specs) {
  std::map<std::string, int> used;
  std::vector<std::string> names;
  for (const AttentionSpec& spec : specs) {
    std::vector<AttentionSpec> alike;
    for (const AttentionSpec& other : specs)
      if (SameKind(other, spec)) alike.push_back(other);
    const std::string differs = WhatDiffers(spec, alike);
    const std::string name = Name(spec) + (differs.empty() ? "" : " " + differs);
    const int count = ++used[name];
    names.push_back(count == 1 ? name : name + "-" + std::to_string(count));
  }
  return names;
}

}  // namespace lshformer
