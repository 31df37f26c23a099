#include "bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "bench/operands.h"
#include "jobs/measure.h"
#include "jobs/model_source.h"

namespace lshformer {
namespace {

// A sample lasts at least this long, so that the clock's own steps do not show; the runs of a length about so long.
constexpr double kSampleMs = 0.2, kLengthMs = 1500;
// Hyperplanes may lie close together by chance, and then many more pairs collide: runs take so many draws in turn.
constexpr uint32_t kDraws = 8;

// The config with the lengths of an earlier tune taken out, of which "auto" may be left alone.
Json WithoutTunedLengths(Json config) {
  if (!config.is_object() || !config.contains("attention")) return config;
  const std::function<void(Json&)> strip = [&strip](Json& attention) {
    if (attention.is_array())
      for (Json& part : attention) strip(part);
    if (!attention.is_object()) return;
    attention.erase("tuned_lengths");
    if (attention.contains("min_length") && attention["min_length"] == "auto") attention["min_length"] = 0;
  };
  strip(config["attention"]);
  return config;
}

// The spec and its exact form on one random sequence, in turn.
Comparison Measure(const AttentionSpec& sparse, const ModelConfig& config, int length, bool backward,
                   const TuneOptions& options) {
  AttentionSpec exact = sparse;
  ForEachSpec(exact, [](AttentionSpec& spec) { spec.min_length = kNeverSparse; });
  const int heads = static_cast<int>(config.num_attention_heads), head_dim = static_cast<int>(config.head_dim());
  AttentionOperands operands(length, /*batch=*/1, heads, head_dim, options.seed);
  std::vector<Projections> draws;
  for (uint32_t layer = 0; layer < kDraws; ++layer)
    draws.push_back(DrawProjections(sparse, operands.shape(), layer, /*step=*/0));
  const float dropout = backward ? static_cast<float>(config.attention_probs_dropout_prob) : 0;
  int calls = 1;
  size_t run = 0;
  const std::vector<std::function<void()>> forms{[&] {
                                                   for (int call = 0; call < calls; ++call)
                                                     operands.Run(exact, {}, backward, dropout, options.operands);
                                                 },
                                                 [&] {
                                                   const Projections& projections = draws[run++ % kDraws];
                                                   for (int call = 0; call < calls; ++call)
                                                     operands.Run(sparse, projections, backward, dropout,
                                                                  options.operands);
                                                 }};
  const auto first = SampleInterleaved(forms, 1);
  const double exact_ms = std::max(first[0][0], 1e-4), sparse_ms = std::max(first[1][0], 1e-4);
  calls = std::max(1, static_cast<int>(kSampleMs / std::min(exact_ms, sparse_ms)));
  const double wanted = kLengthMs / (calls * (exact_ms + sparse_ms));
  auto samples = SampleInterleaved(
      forms, std::clamp(static_cast<int>(wanted), kFewestTuneRuns, std::max(kFewestTuneRuns, options.runs)));
  for (std::vector<double>& form : samples)
    for (double& ms : form) ms /= calls;
  return Compare(samples[0], samples[1]);
}

void MeasureAll(const ModelConfig& config, const std::string& path, const TuneOptions& options,
                std::vector<Tuned>& all) {
  Progress progress("tuning", 0, "lengths");
  int64_t done = 0;
  const auto measure = [&](const Tuned& tuned, bool backward, int length) {
    progress.Update(done++, fmt::format("{}, {}, {} tokens", tuned.name, DirectionName(backward), length));
    return Measure(tuned.spec, config, length, backward, options);
  };
  FindCrossings(config, path, options.direction, options.max_length, measure, all);
}

void WriteConfig(const std::string& path, const Json& read, const std::vector<AttentionSpec>& specs) {
  Json config = ReadModelConfigJson(path);
  if (config != read) Fail("{}: somebody changed it while tune measured; nothing was written", Shown(path, 160));
  config["attention"] = ToJson(specs);
  WriteFileAtomically(path, config.dump(2) + "\n");
}

Json LengthJson(int length) { return length == kNeverSparse ? Json("never") : Json(length); }

}  // namespace

Json ToJson(const TuneResult& result) {
  Json crossings = Json::array();
  for (const Tuned& tuned : result.tuned) {
    for (const auto& [direction, crossing] : tuned.directions) {
      Json points = Json::array();
      for (const auto& [length, times] : crossing.points)
        points.push_back({{"length", length},
                          {"exact_ms", times.exact_ms},
                          {"hashed_ms", times.sparse_ms},
                          {"ratio", times.ratio},
                          {"ratio_low", times.ratio_low},
                          {"ratio_high", times.ratio_high},
                          {"runs", times.runs},
                          {"pays", times.Pays()}});
      crossings.push_back({{"name", tuned.name},
                           {"attention", Name(tuned.spec)},
                           {"direction", direction},
                           {"length", LengthJson(crossing.length)},
                           {"points", std::move(points)}});
    }
  }
  return {{"machine", result.machine},
          {"dtype", Name(result.operands)},
          {"heads", result.config.num_attention_heads},
          {"head_dim", result.config.head_dim()},
          {"crossings", std::move(crossings)},
          {"attention", ToJson(result.config.attention)},
          {"written", result.written.empty() ? Json() : Json(result.written)}};
}

TuneResult RunTune(const TuneOptions& options) {
  const std::string path = options.model_name_or_path + "/config.json";
  const Json read = ReadModelConfigJson(path);
  TuneResult result;
  result.config = ParseModelConfig(WithoutTunedLengths(read), Shown(path, 120));
  ApplyAttention(options.attention, result.config);
  ValidateModelConfig(result.config, Shown(path, 120));
  result.tuned = SpecsToTune(result.config, path);
  if (!options.dry_run) AtomicFile probe(path);  // a folder that cannot be written to fails now, not in a minute
  MeasureAll(result.config, path, options, result.tuned);
  result.machine = DescribeMachine(/*probes=*/false);
  const int threads = result.machine["threads"].get<int>();
  result.operands = options.operands;
  result.where =
      fmt::format("{}, {}, {} thread{}, {}", result.machine["cpu"].get<std::string>(),
                  result.machine["isa"].get<std::string>(), threads, threads == 1 ? "" : "s", Name(options.operands));
  SetLengths(result.tuned, result.where, result.config.attention);
  if (options.dry_run) return result;
  WriteConfig(path, read, result.config.attention);
  result.written = path;
  std::error_code error;
  result.trained = std::filesystem::exists(options.model_name_or_path + "/model.safetensors", error);
  return result;
}

}  // namespace lshformer
