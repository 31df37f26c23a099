#include "cli/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/parallel.h"
#include "base/signals.h"
#include "cli/build_info.h"
#include "kernels/attention.h"
#include "ops/matmul.h"
#include "report/table.h"

namespace lshformer::cli {
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

std::vector<Timing> TimeInterleaved(const std::vector<std::function<void()>>& variants, int runs) {
  std::vector<std::vector<double>> samples(variants.size());
  for (int run = -1; run < runs; ++run) {
    for (size_t v = 0; v < variants.size(); ++v) {
      const double elapsed = Milliseconds(variants[v]);
      if (run >= 0) samples[v].push_back(elapsed);
      ThrowIfStopped("bench");
    }
  }
  std::vector<Timing> timings;
  for (std::vector<double>& sorted : samples) {
    std::sort(sorted.begin(), sorted.end());
    timings.push_back({Quantile(sorted, 0.5), Quantile(sorted, 0.1), Quantile(sorted, 0.9), runs});
  }
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

std::string FormatBenchmark(const Json& machine, const Json& rows, const std::vector<std::string>& columns,
                            bool as_json) {
  if (as_json) return Json{{"machine", machine}, {"results", rows}}.dump(1) + "\n";
  Table table;
  table.columns = columns;
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      const Json& value = row.at(column);
      cells.push_back(value.is_string() ? value.get<std::string>()
                                        : FormatNumber(value.is_null() ? NAN : value.get<double>()));
    }
    table.Row(std::move(cells));
  }
  std::string head = machine["cpu"].get<std::string>() + ", " + machine["isa"].get<std::string>() +
                     ", threads: " + std::to_string(machine["threads"].get<int>());
  if (!machine["gemm_gflops"].is_null()) {
    head += ", GEMM " + FormatNumber(machine["gemm_gflops"].get<double>(), 3) + " GFLOP/s, memory " +
            FormatNumber(machine["memory_gbps"].get<double>(), 3) + " GB/s";
  }
  return head + "\n\n" + PlainText(table);
}

std::vector<int> Distinct(const std::vector<int>& lengths) {
  std::vector<int> distinct;
  for (const int length : lengths) {
    if (std::find(distinct.begin(), distinct.end(), length) == distinct.end()) distinct.push_back(length);
  }
  return distinct;
}

std::vector<std::string> UniqueNames(const std::vector<std::string>& names) {
  std::map<std::string, int> used;
  std::vector<std::string> unique;
  for (const std::string& name : names) {
    const int count = ++used[name];
    unique.push_back(count == 1 ? name : name + "-" + std::to_string(count));
  }
  return unique;
}

}  // namespace lshformer::cli
