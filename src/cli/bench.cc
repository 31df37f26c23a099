// lshformer bench: what the operators cost, beside what the machine can do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "jobs/attention_operands.h"
#include "jobs/measure.h"

namespace lshformer::cli {
namespace {

struct BenchAttentionFlags {
  std::vector<int> lengths{128, 512, 2048};
  int heads = 12, head_dim = 64, batch = 1, runs = 7;
  std::string direction = "both";
  std::vector<std::string> dtypes{"float32"};
  std::vector<std::string> attention{"dense", "simhash"};
  AttentionChanges lsh;
  bool json = false, no_machine = false;
};

struct Variant {
  std::string name;
  AttentionSpec spec;
  Operands operands = Operands::kFloat32;
  const char* dtype() const { return operands == Operands::kBFloat16 ? "bfloat16" : "float32"; }
};

std::vector<Variant> Variants(const BenchAttentionFlags& flags) {
  std::vector<AttentionSpec> specs;
  for (const std::string& value : flags.attention) specs.push_back(ParseAttentionFlag(value));
  flags.lsh.Apply(specs);
  std::vector<Operands> operands;
  for (const std::string& dtype : flags.dtypes) {
    const Operands type = ParseOperandsFlag(dtype);
    if (std::find(operands.begin(), operands.end(), type) == operands.end()) operands.push_back(type);
  }
  const std::vector<std::string> names = VariantNames(specs);
  std::vector<Variant> variants;
  for (size_t v = 0; v < specs.size(); ++v) {
    for (const Operands type : operands)
      variants.push_back({names[v] + (type == Operands::kBFloat16 ? "-bfloat16" : ""), specs[v], type});
  }
  return variants;
}

// Products per pair and head_dim: two forward (scores, output), five backward (scores again, ∂p, ∂v, ∂q, ∂k).
constexpr double kForwardFlops = 4, kBackwardFlops = 10;

Json Rows(int length, bool backward, const std::vector<Variant>& variants, const BenchAttentionFlags& flags,
          const Json& machine, AttentionOperands& operands) {
  std::vector<HashNumbers> numbers;  // drawn before the clock runs
  for (const Variant& variant : variants)
    numbers.push_back(DrawHashNumbers(variant.spec, operands.shape(), /*layer=*/0, /*step=*/0));
  std::vector<std::function<void()>> runs;
  for (size_t v = 0; v < variants.size(); ++v)
    runs.push_back([&, v] { operands.Run(variants[v].spec, numbers[v], backward, 0, variants[v].operands); });
  const std::vector<Timing> timings = TimeInterleaved(runs, flags.runs);
  Json rows = Json::array();
  for (size_t v = 0; v < variants.size(); ++v) {
    const AttentionPlanPtr plan = operands.Plan(variants[v].spec, numbers[v]);
    const AttentionCounts counts = Counts(*plan);
    const double flops =
        (kForwardFlops + (backward ? kBackwardFlops : 0)) * flags.head_dim * static_cast<double>(counts.pairs_computed);
    Json row = {{"name", variants[v].name},
                {"attention", Name(variants[v].spec.type)},
                {"spec", ToJson(variants[v].spec)},
                {"direction", backward ? "forward_backward" : "forward"},
                {"dtype", variants[v].dtype()},
                {"batch", flags.batch},
                {"heads", flags.heads},
                {"head_dim", flags.head_dim},
                {"length", length}};
    AddTiming(timings[v], row);
    row["gflops"] = flops / timings[v].median_ms / 1e6;
    row["pairs_fraction"] = static_cast<double>(counts.pairs_computed) / static_cast<double>(counts.pairs_total);
    row["work_bytes"] =
        backward ? WorkBytes(*plan, variants[v].operands) : ForwardWorkBytes(*plan, variants[v].operands);
    AddRoofline(machine, LeastBytesMoved(variants[v].spec, operands.shape(), backward), row);
    rows.push_back(std::move(row));
  }
  return rows;
}

void BenchAttention(const BenchAttentionFlags& flags, uint64_t seed) {
  const std::vector<Variant> variants = Variants(flags);
  for (const int length : flags.lengths) {
    if (int64_t{length} * flags.batch > INT32_MAX)
      FailUsage("--lengths: {} tokens times --batch {} exceed {}", length, flags.batch, INT32_MAX);
  }
  const Json machine = DescribeMachine(!flags.no_machine);
  Json results = Json::array();
  for (const int length : Distinct(flags.lengths)) {
    AttentionOperands operands(length, flags.batch, flags.heads, flags.head_dim, seed);
    for (const bool backward : {false, true}) {
      if (flags.direction == (backward ? "forward" : "forward_backward")) continue;
      for (Json& row : Rows(length, backward, variants, flags, machine, operands)) results.push_back(std::move(row));
    }
  }
  const std::vector<std::string> columns{"name",         "length",         "direction", "median_ms",
                                         "p10_ms",       "p90_ms",         "gflops",    "gemm_share",
                                         "memory_share", "pairs_fraction", "work_bytes"};
  const std::string text = FormatBenchmark(machine, results, columns, flags.json);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void AddBenchAttention(CLI::App& bench, CommonFlags& common) {
  CLI::App* command =
      bench.add_subcommand("attention", "the attention operator, forward and backward, variants in turn");
  auto flags = std::make_shared<BenchAttentionFlags>();
  const char* group = "What is timed";
  AddVariantsFlag(*command, flags->attention, "a type or a JSON object; repeat it for several", group);
  command->add_option("--lengths", flags->lengths, "tokens a sequence")
      ->delimiter(',')
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command->add_option("--heads", flags->heads, "heads")->check(IntegerIn(1, 4096))->group(group);
  command->add_option("--head_dim", flags->head_dim, "width of a head")->check(IntegerIn(1, 256))->group(group);
  command->add_option("--batch", flags->batch, "sequences a call")->check(IntegerIn(1, 1 << 20))->group(group);
  command->add_option("--dtype", flags->dtypes, "what query, key and value are multiplied in; repeat it for several")
      ->delimiter(',')
      ->check(OneOf({"float32", "bfloat16"}))
      ->group(group);
  command->add_option("--direction", flags->direction, "what a run does")
      ->check(OneOf({"both", "forward", "forward_backward"}))
      ->group(group);
  AddMeasuringFlags(*command, flags->runs, flags->no_machine, flags->json);
  AddLshFlags(*command, flags->lsh);
  command->callback([flags, &common] { BenchAttention(*flags, common.seed); });
}

}  // namespace

void AddBenchModel(CLI::App& bench, CommonFlags& common);  // bench_model.cc
void AddBenchTrain(CLI::App& bench, CommonFlags& common);  // bench_train.cc

void AddBench(CLI::App& app, CommonFlags& common) {
  CLI::App* bench = app.add_subcommand("bench", "timings, beside the machine's own limits");
  bench->require_subcommand(1);
  AddBenchAttention(*bench, common);
  AddBenchModel(*bench, common);
  AddBenchTrain(*bench, common);
}

}  // namespace lshformer::cli
