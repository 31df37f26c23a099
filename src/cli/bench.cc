// lshformer bench: what operators, models and training steps cost, beside what the machine can do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "bench/attention.h"
#include "bench/model.h"
#include "bench/train.h"
#include "cli/bench_dist.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "jobs/use_matmul_precision.h"
#include "models/family.h"
#include "report/table.h"

namespace lshformer::cli {
namespace {

// The whole as JSON, or the rows as a table of `columns` under a line about the machine.
void Print(const BenchResult& benchmark, const std::vector<std::string>& columns, bool as_json) {
  const auto& [machine, rows] = benchmark;
  if (as_json) {
    std::cout << Json{{"machine", machine}, {"results", rows}}.dump(1) << "\n";
    return;
  }
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
  std::cout << head << "\n\n" << PlainText(table);
}

// Values of --dtype as what they name; what float32's products are made of is in force from here on.
template <class Kind>
std::vector<Kind> ApplyDtypes(const std::vector<std::string>& names, Kind (*parse)(const std::string&),
                              const std::optional<std::string>& matmul_precision) {
  if (matmul_precision && std::find(names.begin(), names.end(), "float32") == names.end())
    FailUsage("--float32_matmul_precision: is for --dtype float32");
  std::vector<Kind> kinds;
  for (const std::string& name : names) kinds.push_back(parse(name));
  UseMatmulPrecision(ParseMatmulPrecisionFlag(matmul_precision));
  return kinds;
}

// What --direction, --dtype, --float32_matmul_precision, --no_machine and --json say, beside the options of the
// benchmark.
template <class Options>
struct BenchFlags {
  Options bench;
  std::string direction = "both";
  std::vector<std::string> dtypes{"float32"};
  std::optional<std::string> float32_matmul_precision = {};
  bool no_machine = false, json = false;
};

void AddBenchAttention(CLI::App& bench, CommonFlags& common) {
  CLI::App* command =
      bench.add_subcommand("attention", "the attention operator, forward and backward, variants in turn");
  auto flags = std::make_shared<BenchFlags<BenchAttentionOptions>>();
  const char* group = "What is timed";
  AddVariantsFlag(*command, flags->bench.attention, "a type or a JSON object; repeat it for several", group);
  command->add_option("--lengths", flags->bench.lengths, "tokens a sequence")
      ->delimiter(',')
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command->add_option("--heads", flags->bench.heads, "heads")->check(IntegerIn(1, 4096))->group(group);
  command->add_option("--head_dim", flags->bench.head_dim, "width of a head")->check(IntegerIn(1, 256))->group(group);
  command->add_option("--batch", flags->bench.batch, "sequences a call")->check(IntegerIn(1, 1 << 20))->group(group);
  command->add_option("--dtype", flags->dtypes, "what query, key and value are multiplied in; repeat it for several")
      ->delimiter(',')
      ->check(OneOf({"float32", "bfloat16"}))
      ->group(group);
  AddMatmulPrecisionFlag(*command, flags->float32_matmul_precision, group);
  command->add_option("--direction", flags->direction, "what a run does")
      ->check(OneOf({"both", "forward", "forward_backward"}))
      ->group(group);
  AddMeasuringFlags(*command, flags->bench.runs, flags->no_machine, flags->json);
  AddLshFlags(*command, flags->bench.lsh);
  command->callback([flags, &common] {
    flags->bench.operands = ApplyDtypes(flags->dtypes, ParseOperandsFlag, flags->float32_matmul_precision);
    flags->bench.forward = flags->direction != "forward_backward";
    flags->bench.forward_backward = flags->direction != "forward";
    flags->bench.probe_machine = !flags->no_machine;
    flags->bench.seed = common.seed;
    Print(RunBenchAttention(flags->bench),
          {"name", "length", "direction", "median_ms", "p10_ms", "p90_ms", "gflops", "gemm_share", "memory_share",
           "pairs_fraction", "work_bytes"},
          flags->json);
  });
}

void AddBenchModel(CLI::App& bench, CommonFlags& common) {
  CLI::App* command = bench.add_subcommand("model", "the encoder of a checkpoint, forward, variants in turn");
  auto flags = std::make_shared<BenchFlags<BenchModelOptions>>();
  const char* group = "What is timed";
  command->add_option("DIR", flags->bench.model_name_or_path, "checkpoint folder")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command->add_option("--lengths", flags->bench.lengths, "random sequences of this many tokens")
      ->delimiter(',')
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command->add_option("--batch_size,--batch", flags->bench.batch_size, "of them in a call")
      ->check(IntegerIn(1, 1 << 20))
      ->group(group);
  command
      ->add_option(
          "--input", flags->bench.input,
          "or JSONL of \"text\" and \"text_pair\": all of them in one run, batched as predict does; - is stdin")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--max_seq_length", flags->bench.max_seq_length, "longer texts are cut; 0: the position table")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command->add_option("--batch_tokens", flags->bench.batch_tokens, "tokens a forward call")
      ->check(IntegerIn(1, int64_t{1} << 24))
      ->group(group);
  AddVariantsFlag(*command, flags->bench.attention, "instead of the model's own; repeat it for several", group);
  command
      ->add_option("--dtype", flags->dtypes, "of the linear layers (bfloat16: of attention too); repeat it for several")
      ->delimiter(',')
      ->check(OneOf({"float32", "bfloat16", "int8"}))
      ->group(group);
  AddMatmulPrecisionFlag(*command, flags->float32_matmul_precision, group);
  AddMeasuringFlags(*command, flags->bench.runs, flags->no_machine, flags->json);
  AddLshFlags(*command, flags->bench.lsh);
  command->callback([command, flags, &common] {
    if (!flags->bench.input.empty())
      RefuseFlags(*command, {"--lengths", "--batch_size"}, "the texts of --input have lengths of their own");
    else
      RefuseFlags(*command, {"--max_seq_length", "--batch_tokens"}, "is for the texts of --input");
    flags->bench.precisions = ApplyDtypes(flags->dtypes, ParsePrecisionFlag, flags->float32_matmul_precision);
    flags->bench.probe_machine = !flags->no_machine;
    flags->bench.seed = common.seed;
    Print(RunBenchModel(flags->bench),
          {"name", "batch", "length", "tokens", "median_ms", "p10_ms", "p90_ms", "tokens_per_second",
           "sequences_per_second"},
          flags->json);
  });
}

void AddBenchTrain(CLI::App& bench, CommonFlags& common) {
  CLI::App* command = bench.add_subcommand("train", "masked-LM steps on random ids, 15 % labelled, variants in turn");
  auto flags = std::make_shared<BenchFlags<BenchTrainOptions>>();
  const char* group = "What is timed";
  command->add_option("--model_type", flags->bench.model_type, "the model")->check(OneOf(ModelTypes()))->group(group);
  command
      ->add_option("--config_name", flags->bench.config_name,
                   "its config.json or a folder that has one; default BERT base")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--config_overrides", flags->bench.config_overrides, "changes to it; repeat it for several models")
      ->type_name("KEY=VALUE,…")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command
      ->add_flag("--gradient_checkpointing", flags->bench.gradient_checkpointing,
                 "keep the input of each layer alone, as pretrain and train do with this flag")
      ->group(group);
  AddVariantsFlag(*command, flags->bench.attention, "a type or a JSON object; repeat it for several", group);
  command->add_option("--dtype", flags->dtypes, "of the linear layers and attention; repeat it for several")
      ->delimiter(',')
      ->check(OneOf({"float32", "bfloat16"}))
      ->group(group);
  AddMatmulPrecisionFlag(*command, flags->float32_matmul_precision, group);
  command->add_option("--lengths", flags->bench.lengths, "tokens a sequence")
      ->delimiter(',')
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command->add_option("--batch_size,--batch", flags->bench.batch_size, "sequences a step")
      ->check(IntegerIn(1, 1 << 20))
      ->group(group);
  AddMeasuringFlags(*command, flags->bench.runs, flags->no_machine, flags->json);
  AddLshFlags(*command, flags->bench.lsh);
  command->callback([flags, &common] {
    flags->bench.precisions = ApplyDtypes(flags->dtypes, ParsePrecisionFlag, flags->float32_matmul_precision);
    flags->bench.probe_machine = !flags->no_machine;
    flags->bench.seed = common.seed;
    Print(RunBenchTrain(flags->bench),
          {"name", "layers", "length", "tokens", "median_ms", "p10_ms", "p90_ms", "tokens_per_second",
           "sequences_per_second", "activation_bytes"},
          flags->json);
  });
}

}  // namespace

void AddBench(CLI::App& app, CommonFlags& common) {
  CLI::App* bench = app.add_subcommand("bench", "timings, beside the machine's own limits");
  bench->require_subcommand(1);
  AddBenchAttention(*bench, common);
  AddBenchModel(*bench, common);
  AddBenchTrain(*bench, common);
  AddBenchDist(*bench, common);
}

}  // namespace lshformer::cli
