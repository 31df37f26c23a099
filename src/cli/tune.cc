// lshformer tune: from which length on hashing beats a model's exact attention here, written into its config.
#include "bench/tune.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "report/table.h"

namespace lshformer::cli {
namespace {

struct TuneFlags {
  TuneOptions options;
  std::string dtype = "float32";
  bool json = false;
};

std::string ResultText(const TuneResult& result) {
  const ModelConfig& config = result.config;
  const std::string& written = result.written;
  Table table{{"tokens", "exact ms", "sparse ms", "sparse / exact", "at least", "at most", "runs"}, {}};
  std::string verdicts;
  for (const Tuned& tuned : result.tuned) {
    for (const auto& [direction, crossing] : tuned.directions) {
      table.Section(tuned.name + ", " + direction);
      for (const auto& [length, times] : crossing.points)
        table.Row({std::to_string(length), FormatNumber(times.exact_ms), FormatNumber(times.sparse_ms),
                   FormatNumber(times.ratio, 3), FormatNumber(times.ratio_low, 3), FormatNumber(times.ratio_high, 3),
                   std::to_string(times.runs)});
      verdicts += fmt::format("{}, {}: ", tuned.name, direction);
      verdicts += crossing.length == kNeverSparse
                      ? fmt::format("hashing does not pay up to {} tokens\n", crossing.points.back().length)
                      : fmt::format("sparse attention pays from {} tokens on\n", crossing.length);
    }
  }
  std::string out = fmt::format("{}; {} heads × {}\n\n{}\n{}", result.where, config.num_attention_heads,
                                config.head_dim(), PlainText(table), verdicts);
  out += written.empty() ? "nothing written (--dry_run)" : written + ": \"min_length\": \"auto\"";
  for (size_t layer = 0; layer < config.attention.size(); ++layer) {
    const AttentionSpec& spec = config.attention[layer];
    if (!IsSparse(spec)) continue;
    const std::string which = config.attention.size() == 1 ? "" : fmt::format("layer {}: ", layer);
    out += MinLength(spec) == kNeverSparse
               ? fmt::format("; {}every sequence {} exact attention", which, written.empty() ? "would get" : "gets")
               : fmt::format("; {}sequences of {} tokens and more {} sparse", which, ShortestSparse(spec),
                             written.empty() ? "would be" : "are");
  }
  if (result.trained)
    out +=
        "\nThe folder holds weights: sequences that were sparse in training and are exact now (or the other way round) "
        "get other "
        "answers. Evaluate it again, or set \"min_length\" back.";
  return out + "\n";
}

}  // namespace

void AddTune(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand(
      "tune",
      "measures from which length on sparse attention beats exact attention here, and writes it into the config");
  auto flags = std::make_shared<TuneFlags>();
  const char* group = "Model";
  command
      ->add_option("--model_name_or_path", flags->options.model_name_or_path,
                   "model folder; its config.json is all that is needed")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command
      ->add_flag("--dry_run", flags->options.dry_run,
                 "write nothing; else config.json gets \"tuned_lengths\" and \"min_length\": \"auto\"")
      ->group(group);
  group = "Measuring";
  command
      ->add_option("--direction", flags->options.direction,
                   "with both, sparse attention has to pay forward and with the backward too")
      ->check(OneOf({"both", "forward", "forward_backward"}))
      ->group(group);
  command
      ->add_option("--max_length", flags->options.max_length,
                   "longest sequence to try; 0: the position table, at most 16384 tokens")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command
      ->add_option("--runs", flags->options.runs,
                   "timed runs of each form at a length, at most; fewer where they take long")
      ->check(IntegerIn(kFewestTuneRuns, 10'000))
      ->group(group);
  command
      ->add_option("--dtype", flags->dtype,
                   "what query, key and value are multiplied in: that in which the model is to run (--bf16: bfloat16)")
      ->check(OneOf({"float32", "bfloat16"}))
      ->group(group);
  command->add_flag("--json", flags->json, "JSON instead of a table")->group(group);
  AddAttentionFlags(*command, flags->options.attention);
  command->get_option("--lsh_min_length")->group("");  // not in the help; refused with the reason
  command->callback([command, flags, &common] {
    RefuseFlags(*command, {"--lsh_min_length"}, "is what tune finds");
    flags->options.seed = common.seed;
    flags->options.operands = ParseOperandsFlag(flags->dtype);
    const TuneResult result = RunTune(flags->options);
    std::cout << (flags->json ? ToJson(result).dump(1) + "\n" : ResultText(result));
  });
}

}  // namespace lshformer::cli
