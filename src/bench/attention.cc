#include "bench/attention.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/error.h"
#include "bench/operands.h"
#include "kernels/cost.h"
#include "kernels/counts.h"
#include "kernels/matmul_precision.h"
#include "models/stored_directions.h"

namespace lshformer {
namespace {

struct Variant {
  std::string name;
  AttentionSpec spec;
  Operands operands = Operands::kFloat32;
};

std::vector<Variant> Variants(const BenchAttentionOptions& options) {
  std::vector<AttentionSpec> specs;
  for (const std::string& value : options.attention) specs.push_back(ParseAttentionFlag(value));
  options.lsh.Apply(specs);
  if (AnyStoresDirections(specs))
    FailOption("lsh_directions", "there is no model here that could have them stored; expected random");
  const std::vector<std::string> names = VariantNames(specs);
  std::vector<Variant> variants;
  for (size_t v = 0; v < specs.size(); ++v) {
    for (const Operands type : Distinct(options.operands))
      variants.push_back({names[v] + (type == Operands::kBFloat16 ? "-bfloat16" : ""), specs[v], type});
  }
  return variants;
}

// Products per pair and head_dim: two forward (scores, output), five backward (scores again, ∂p, ∂v, ∂q, ∂k).
constexpr double kForwardFlops = 4, kBackwardFlops = 10;

// Of one sequence forward, by the share of pairs that was computed, as the mean over the batch.
void AddCounts(const AttentionSpec& spec, const BenchAttentionOptions& options, int length, Json& row) {
  const AttentionCost cost =
      CostOfAttention(spec, options.heads, options.head_dim, length, row.at("pairs_fraction").get<double>());
  row["dot_products"] = cost.dot_products;
  row["hash_flops"] = cost.selection_flops;
  row["score_flops"] = cost.score_flops;
  row["value_flops"] = cost.value_flops;
  row["paper_flops"] = cost.paper_flops();
}

Json Rows(int length, bool backward, const std::vector<Variant>& variants, const BenchAttentionOptions& options,
          const Json& machine, AttentionOperands& operands) {
  std::vector<Projections> projections;  // drawn before the clock runs
  for (const Variant& variant : variants)
    projections.push_back(DrawProjections(variant.spec, operands.shape(), /*layer=*/0, /*step=*/0));
  std::vector<std::function<void()>> runs;
  for (size_t v = 0; v < variants.size(); ++v)
    runs.push_back([&, v] { operands.Run(variants[v].spec, projections[v], backward, 0, variants[v].operands); });
  const std::vector<Timing> timings = TimeInterleaved(runs, options.runs, fmt::format("timing {} tokens", length));
  Json rows = Json::array();
  for (size_t v = 0; v < variants.size(); ++v) {
    const PlannedAttention planned = operands.Plan(variants[v].spec, projections[v]);
    const AttentionCounts counts = Counts(*planned.plan);
    const double flops = (kForwardFlops + (backward ? kBackwardFlops : 0)) * options.head_dim *
                         static_cast<double>(counts.pairs_computed);
    Json row = {
        {"name", variants[v].name},
        {"attention", Name(variants[v].spec)},
        {"spec", ToJson(variants[v].spec)},
        {"direction", backward ? "forward_backward" : "forward"},
        {"dtype", Name(variants[v].operands)},
        {"matmul_precision", variants[v].operands == Operands::kFloat32 ? Json(Name(ActiveMatmulPrecision())) : Json()},
        {"batch", options.batch},
        {"heads", options.heads},
        {"head_dim", options.head_dim},
        {"length", length}};
    AddTiming(timings[v], row);
    row["gflops"] = flops / timings[v].median_ms / 1e6;
    row["pairs_fraction"] = static_cast<double>(counts.pairs_computed) / static_cast<double>(counts.pairs_total);
    AddCounts(variants[v].spec, options, length, row);
    const Operands multiplied = MultipliedAs(variants[v].operands);
    row["work_bytes"] = backward ? WorkBytes(planned, multiplied) : ForwardWorkBytes(planned, multiplied);
    AddRoofline(machine, LeastBytesMoved(variants[v].spec, operands.shape(), backward), row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

BenchResult RunBenchAttention(const BenchAttentionOptions& options) {
  const std::vector<Variant> variants = Variants(options);
  for (const int length : options.lengths) {
    if (int64_t{length} * options.batch > INT32_MAX)
      FailOption("lengths", "{} tokens times {} {} exceed {}", length, OptionName{"batch"}, options.batch, INT32_MAX);
  }
  BenchResult benchmark{DescribeMachine(options.probe_machine)};
  for (const int length : Distinct(options.lengths)) {
    AttentionOperands operands(length, options.batch, options.heads, options.head_dim, options.seed);
    for (const bool backward : {false, true}) {
      if (!(backward ? options.forward_backward : options.forward)) continue;
      for (Json& row : Rows(length, backward, variants, options, benchmark.machine, operands))
        benchmark.rows.push_back(std::move(row));
    }
  }
  return benchmark;
}

}  // namespace lshformer
