#include "jobs/seed_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/metric_direction.h"
#include "report/runs.h"

namespace lshformer {
namespace {

// The figures of an evaluation, not of how long it took and of how much.
bool IsMetric(const std::string& key) {
  if (key == "train_loss" || key == "perplexity") return true;
  if (!key.starts_with("eval_")) return false;
  constexpr std::array kOthers{"runtime", "per_second", "samples", "total", "_thresh"};
  return std::none_of(kOthers.begin(), kOthers.end(),
                      [&](const char* part) { return key.find(part) != std::string::npos; });
}

// The name in the results: with "eval_" or without. "" where there is none of it.
std::string KeyOf(const Json& metrics, const std::string& name) {
  for (const std::string& key : {name, "eval_" + name})
    if (metrics.contains(key)) return key;
  return "";
}

std::string MainMetric(const Json& metrics) {
  for (const char* name :
       {"matthews_correlation", "combined_score", "perplexity", "f1", "f1_micro", "accuracy", "loss"})
    if (const std::string key = KeyOf(metrics, name); !key.empty()) return key;
  return "";
}

Json Statistics(std::span<const SeedResult> results, const std::string& key) {
  Json values = Json::array();
  Json best, best_seed;
  double sum = 0;
  bool all = true;
  const bool greater = BetterDirection(key) >= 0;
  for (const SeedResult& result : results) {
    const Json value = result.metrics.value(key, Json());
    values.push_back(value);
    all &= value.is_number();
    if (!value.is_number()) continue;
    const double x = value.get<double>();
    sum += x;
    if (best.is_null() || (greater ? x > best.get<double>() : x < best.get<double>()))
      best = value, best_seed = result.seed;
  }
  Json mean, deviation;
  if (all) {
    const auto n = static_cast<double>(results.size());
    mean = sum / n;
    double squares = 0;
    for (const Json& value : values) squares += std::pow(value.get<double>() - mean.get<double>(), 2);
    if (results.size() > 1) deviation = std::sqrt(squares / (n - 1));
  }
  return {{"mean", mean}, {"std", deviation}, {"best", best}, {"best_seed", best_seed}, {"values", values}};
}

std::string Cell(const Json& value) {
  return value.is_number() ? FormatNumber(value.get<double>()) : FormatNumber(std::nan(""));
}

}  // namespace

Json SummarizeSeeds(std::span<const SeedResult> results, const std::string& metric, const std::string& output_dir) {
  Json seeds = Json::array();
  for (const SeedResult& result : results) seeds.push_back(result.seed);
  Json summary{{"seeds", seeds}};
  const Json& first = results.front().metrics;
  std::set<std::string> keys;  // in one order, whether this run or an earlier one made them
  for (const auto& [key, value] : first.items())
    if (IsMetric(key)) keys.insert(key);
  for (const std::string& key : keys) summary[key] = Statistics(results, key);
  const std::string main = metric.empty() ? MainMetric(first) : KeyOf(first, metric);
  if (main.empty()) return summary;
  const Json figures = summary.at(main);  // a copy: members that are added move the others
  summary["metric_for_best_model"] = main;
  summary["best_metric"] = figures["best"];
  summary["best_seed"] = figures["best_seed"];
  if (!figures["best_seed"].is_null())
    summary["best_model"] = SeedFolder(output_dir, figures["best_seed"].get<uint64_t>());
  return summary;
}

Table SeedsTable(const Json& summary) {
  Table table;
  table.columns = {fmt::format("{} seed{}", summary.at("seeds").size(), summary.at("seeds").size() == 1 ? "" : "s"),
                   "mean", "std", "best", "seed"};
  for (const auto& [key, value] : summary.items())
    if (value.is_object())
      table.Row({key, Cell(value["mean"]), Cell(value["std"]), Cell(value["best"]),
                 value["best_seed"].is_null() ? "–" : value["best_seed"].dump()});
  return table;
}

std::string SeedsText(const Json& summary) {
  std::string text = PlainText(SeedsTable(summary));
  if (summary.contains("best_model"))
    text += fmt::format("best by {}: {}\n", summary["metric_for_best_model"].get<std::string>(),
                        Shown(summary["best_model"].get<std::string>(), /*limit=*/4096));
  return text;
}

}  // namespace lshformer
