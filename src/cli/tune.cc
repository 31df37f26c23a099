// lshformer tune: from which length on hashing beats a model's exact attention here, written into its config.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "io/model_config.h"
#include "jobs/attention_operands.h"
#include "jobs/measure.h"
#include "jobs/tuning.h"
#include "report/table.h"

namespace lshformer::cli {
namespace {

// A sample lasts at least this long, so that the clock's own steps do not show; the runs of a length about so long.
constexpr double kSampleMs = 0.2, kLengthMs = 1500;
constexpr int kFewestRuns = 5;  // with less nothing is beyond doubt (crossing.h)
// Hyperplanes may lie close together by chance, and then many more pairs collide: runs take so many draws in turn.
constexpr uint32_t kDraws = 8;

struct TuneFlags {
  std::string folder, direction = "both";
  int max_length = 0, runs = 21;
  bool dry_run = false, json = false;
  AttentionChanges attention;
};

// The config with the lengths of an earlier tune taken out, of which "auto" may be left alone.
Json WithoutTunedLengths(Json config) {
  if (!config.is_object() || !config.contains("attention")) return config;
  const auto strip = [](Json& layer) {
    if (!layer.is_object()) return;
    layer.erase("tuned_lengths");
    if (layer.contains("min_length") && layer["min_length"] == "auto") layer["min_length"] = 0;
  };
  Json& attention = config["attention"];
  strip(attention);
  if (attention.is_array())
    for (Json& layer : attention) strip(layer);
  return config;
}

// The spec and its exact form on one random sequence, in turn.
Comparison Measure(const AttentionSpec& hashed, const ModelConfig& config, int length, bool backward,
                   const TuneFlags& flags, uint64_t seed) {
  AttentionSpec exact = hashed;
  exact.min_length = kNeverHash;
  const int heads = static_cast<int>(config.num_attention_heads), head_dim = static_cast<int>(config.head_dim());
  AttentionOperands operands(length, /*batch=*/1, heads, head_dim, seed);
  std::vector<HashNumbers> draws;
  for (uint32_t layer = 0; layer < kDraws; ++layer)
    draws.push_back(DrawHashNumbers(hashed, operands.shape(), layer, /*step=*/0));
  const float dropout = backward ? static_cast<float>(config.attention_probs_dropout_prob) : 0;
  int calls = 1;
  size_t run = 0;
  const std::vector<std::function<void()>> forms{[&] {
                                                   for (int call = 0; call < calls; ++call)
                                                     operands.Run(exact, {}, backward, dropout);
                                                 },
                                                 [&] {
                                                   const HashNumbers& numbers = draws[run++ % kDraws];
                                                   for (int call = 0; call < calls; ++call)
                                                     operands.Run(hashed, numbers, backward, dropout);
                                                 }};
  const auto first = SampleInterleaved(forms, 1);
  const double exact_ms = std::max(first[0][0], 1e-4), hashed_ms = std::max(first[1][0], 1e-4);
  calls = std::max(1, static_cast<int>(kSampleMs / std::min(exact_ms, hashed_ms)));
  const double wanted = kLengthMs / (calls * (exact_ms + hashed_ms));
  auto samples = SampleInterleaved(forms, std::clamp(static_cast<int>(wanted), kFewestRuns, flags.runs));
  for (std::vector<double>& form : samples)
    for (double& ms : form) ms /= calls;
  return Compare(samples[0], samples[1]);
}

void MeasureAll(const ModelConfig& config, const std::string& path, const TuneFlags& flags, uint64_t seed,
                std::vector<Tuned>& all) {
  Progress progress("tuning", 0, "lengths");
  int64_t done = 0;
  const auto measure = [&](const Tuned& tuned, bool backward, int length) {
    progress.Update(done++, fmt::format("{}, {}, {} tokens", tuned.name, DirectionName(backward), length));
    return Measure(tuned.spec, config, length, backward, flags, seed);
  };
  FindCrossings(config, path, flags.direction, flags.max_length, measure, all);
}

void WriteConfig(const std::string& path, const Json& read, const std::vector<AttentionSpec>& specs) {
  Json config = ReadModelConfigJson(path);
  if (config != read) Fail("{}: somebody changed it while tune measured; nothing was written", Shown(path, 160));
  Json layers = Json::array();
  for (const AttentionSpec& spec : specs) layers.push_back(ToJson(spec));
  config["attention"] = layers.size() == 1 ? layers[0] : layers;
  WriteFileAtomically(path, config.dump(2) + "\n");
}

Json LengthJson(int length) { return length == kNeverHash ? Json("never") : Json(length); }

Json ResultJson(const std::vector<Tuned>& all, const ModelConfig& config, const Json& machine,
                const std::string& written) {
  Json crossings = Json::array();
  for (const Tuned& tuned : all) {
    for (const auto& [direction, crossing] : tuned.directions) {
      Json points = Json::array();
      for (const auto& [length, times] : crossing.points)
        points.push_back({{"length", length},
                          {"exact_ms", times.exact_ms},
                          {"hashed_ms", times.hashed_ms},
                          {"ratio", times.ratio},
                          {"ratio_low", times.ratio_low},
                          {"ratio_high", times.ratio_high},
                          {"runs", times.runs},
                          {"pays", times.Pays()}});
      crossings.push_back({{"name", tuned.name},
                           {"attention", Name(tuned.spec.type)},
                           {"direction", direction},
                           {"length", LengthJson(crossing.length)},
                           {"points", std::move(points)}});
    }
  }
  Json layers = Json::array();
  for (const AttentionSpec& spec : config.attention) layers.push_back(ToJson(spec));
  return {{"machine", machine},
          {"heads", config.num_attention_heads},
          {"head_dim", config.head_dim()},
          {"crossings", std::move(crossings)},
          {"attention", layers.size() == 1 ? layers[0] : layers},
          {"written", written.empty() ? Json() : Json(written)}};
}

std::string ResultText(const std::vector<Tuned>& all, const ModelConfig& config, const std::string& machine,
                       const std::string& written, bool trained) {
  Table table{{"tokens", "exact ms", "hashed ms", "hashed / exact", "at least", "at most", "runs"}, {}};
  std::string verdicts;
  for (const Tuned& tuned : all) {
    for (const auto& [direction, crossing] : tuned.directions) {
      table.Section(tuned.name + ", " + direction);
      for (const auto& [length, times] : crossing.points)
        table.Row({std::to_string(length), FormatNumber(times.exact_ms), FormatNumber(times.hashed_ms),
                   FormatNumber(times.ratio, 3), FormatNumber(times.ratio_low, 3), FormatNumber(times.ratio_high, 3),
                   std::to_string(times.runs)});
      verdicts += fmt::format("{}, {}: ", tuned.name, direction);
      verdicts += crossing.length == kNeverHash
                      ? fmt::format("hashing does not pay up to {} tokens\n", crossing.points.back().length)
                      : fmt::format("hashing pays from {} tokens on\n", crossing.length);
    }
  }
  std::string out = fmt::format("{}; {} heads × {}\n\n{}\n{}", machine, config.num_attention_heads, config.head_dim(),
                                PlainText(table), verdicts);
  out += written.empty() ? "nothing written (--dry_run)" : written + ": \"min_length\": \"auto\"";
  for (size_t layer = 0; layer < config.attention.size(); ++layer) {
    const AttentionSpec& spec = config.attention[layer];
    if (spec.type == AttentionType::kDense) continue;
    const std::string which = config.attention.size() == 1 ? "" : fmt::format("layer {}: ", layer);
    out += MinLength(spec) == kNeverHash
               ? fmt::format("; {}every sequence {} exact attention", which, written.empty() ? "would get" : "gets")
               : fmt::format("; {}sequences of {} tokens and more {} hashed", which, ShortestHashed(spec),
                             written.empty() ? "would be" : "are");
  }
  if (trained)
    out +=
        "\nThe folder holds weights: sequences that were hashed in training and are exact now (or the other way round) "
        "get other "
        "answers. Evaluate it again, or set \"min_length\" back.";
  return out + "\n";
}

void Tune(const TuneFlags& flags, uint64_t seed) {
  const std::string path = flags.folder + "/config.json";
  const Json read = ReadModelConfigJson(path);
  ModelConfig config = ParseModelConfig(WithoutTunedLengths(read), Shown(path, 120));
  flags.attention.Apply(config.attention);
  ValidateModelConfig(config, Shown(path, 120));
  std::vector<Tuned> all = SpecsToTune(config, path);
  if (!flags.dry_run) AtomicFile probe(path);  // a folder that cannot be written to fails now, not in a minute
  MeasureAll(config, path, flags, seed, all);
  const Json machine = DescribeMachine(/*probes=*/false);
  const int threads = machine["threads"].get<int>();
  const std::string where = fmt::format("{}, {}, {} thread{}", machine["cpu"].get<std::string>(),
                                        machine["isa"].get<std::string>(), threads, threads == 1 ? "" : "s");
  SetLengths(all, where, config.attention);
  if (!flags.dry_run) WriteConfig(path, read, config.attention);
  const std::string written = flags.dry_run ? "" : path;
  std::error_code error;
  const bool trained = !flags.dry_run && std::filesystem::exists(flags.folder + "/model.safetensors", error);
  const std::string text = flags.json ? ResultJson(all, config, machine, written).dump(1) + "\n"
                                      : ResultText(all, config, where, written, trained);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void AddTune(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand(
      "tune", "measures from which length on hashing beats exact attention here, and writes it into the config");
  auto flags = std::make_shared<TuneFlags>();
  const char* group = "Model";
  command->add_option("--model_name_or_path", flags->folder, "model folder; its config.json is all that is needed")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command
      ->add_flag("--dry_run", flags->dry_run,
                 "write nothing; else config.json gets \"tuned_lengths\" and \"min_length\": \"auto\"")
      ->group(group);
  group = "Measuring";
  command
      ->add_option("--direction", flags->direction, "with both, hashing has to pay forward and with the backward too")
      ->check(OneOf({"both", "forward", "forward_backward"}))
      ->group(group);
  command
      ->add_option("--max_length", flags->max_length,
                   "longest sequence to try; 0: the position table, at most 16384 tokens")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command->add_option("--runs", flags->runs, "timed runs of each form at a length, at most; fewer where they take long")
      ->check(IntegerIn(kFewestRuns, 10'000))
      ->group(group);
  command->add_flag("--json", flags->json, "JSON instead of a table")->group(group);
  AddAttentionFlags(*command, flags->attention);
  command->get_option("--lsh_min_length")->group("");  // not in the help; refused with the reason
  command->callback([command, flags, &common] {
    RefuseFlags(*command, {"--lsh_min_length"}, "is what tune finds");
    Tune(*flags, common.seed);
  });
}

}  // namespace lshformer::cli
