#include "jobs/info/text_estimate.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "base/parallel.h"
#include "eval/model_cost.h"
#include "jobs/attention.h"
#include "jobs/measure.h"
#include "kernels/cost.h"
#include "kernels/matmul.h"

namespace lshformer {
namespace {

constexpr double kFloat = sizeof(float), kGiga = 1e9;
constexpr double kBesideProducts = 1.15;  // of the time of linear maps: what passes over their rows

double Seconds(const std::function<void()>& run) {
  constexpr int kRuns = 5;
  return TimeInterleaved({run}, kRuns).front().median_ms / 1e3;
}

double GemmGflops(const ModelConfig& config) {
  constexpr double kMost = 1e9;  // operations of one run
  const int64_t inner = config.hidden_size, columns = config.intermediate_size;
  const double of_a_row = 2.0 * static_cast<double>(inner * columns);
  const int64_t rows = std::clamp(static_cast<int64_t>(kMost / of_a_row), int64_t{64}, int64_t{512});
  const std::vector<float> weights(static_cast<size_t>(inner * columns), 0.5F),
      states(static_cast<size_t>(rows * inner), 1.0F);
  std::vector<float> out(static_cast<size_t>(rows * columns));
  const PackedMatrix packed({weights.data(), columns, 1}, inner, columns);
  const double seconds =
      Seconds([&] { packed.Multiply(rows, states.data(), inner, /*bias=*/nullptr, out.data(), columns); });
  return of_a_row * static_cast<double>(rows) / seconds / kGiga;
}

double AttentionGflops(const AttentionSpec& spec, const ModelConfig& config) {
  constexpr int kExact = 512, kSparse = 2048;  // tokens
  AttentionInput in;
  in.tokens = IsSparseAt(spec, kSparse) ? kSparse : kExact;
  in.heads = static_cast<int>(config.num_attention_heads);
  in.head_dim = static_cast<int>(config.head_dim());
  in.cu_seqlens = {0, static_cast<int32_t>(in.tokens)};
  const auto numbers = static_cast<size_t>(in.tokens * config.hidden_size);
  std::vector<float>* const tensors[] = {&in.query, &in.key, &in.value};
  for (size_t i = 0; i < std::size(tensors); ++i) {
    tensors[i]->resize(numbers);
    for (size_t n = 0; n < numbers; ++n) (*tensors[i])[n] = static_cast<float>((n * 7919 + i * 31) % 1000) / 500 - 1;
  }
  in.projections = DrawProjections(spec, in.shape(), /*layer=*/0, /*step=*/0);
  const double seconds = Seconds([&] { RunAttention(in, spec); });
  return CostOfAttention(spec, in.heads, in.head_dim, in.tokens).full_flops() / seconds / kGiga;
}

// As it stands in a layer; heads with settings of their own are of one kind.
AttentionSpec Exact() { return {}; }

double RateOf(const SpeedProbe& probe, const AttentionSpec& spec, int64_t length) {
  const std::string kind =
      Is<LocalAttention>(spec) || IsSparseAt(spec, static_cast<int>(std::min<int64_t>(length, INT32_MAX)))
          ? Name(spec)
          : Name(Exact());
  const auto found = std::find_if(probe.attention_gflops.begin(), probe.attention_gflops.end(),
                                  [&](const auto& rate) { return rate.first == kind; });
  return found == probe.attention_gflops.end() ? probe.attention_gflops.front().second : found->second;
}

// Of this process: libraries and what they hold.
double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

SpeedProbe ProbeSpeed(const ModelConfig& config) {
  SpeedProbe probe;
  probe.gemm_gflops = GemmGflops(config);
  probe.attention_gflops.emplace_back(Name(Exact()), AttentionGflops(Exact(), config));
  for (const AttentionSpec& spec : config.attention) {
    const std::string kind = Name(spec);
    const bool known = std::any_of(probe.attention_gflops.begin(), probe.attention_gflops.end(),
                                   [&](const auto& rate) { return rate.first == kind; });
    if (!known) probe.attention_gflops.emplace_back(kind, AttentionGflops(OfHead(spec, 0), config));
  }
  return probe;
}

std::vector<TextEstimate> EstimateTexts(const ModelConfig& config, const SpeedProbe& probe, int64_t parameters,
                                        const std::vector<int64_t>& lengths) {
  const int heads = static_cast<int>(config.num_attention_heads), head_dim = static_cast<int>(config.head_dim());
  const double weights = 2 * kFloat * static_cast<double>(parameters), process = ResidentBytes();
  std::vector<TextEstimate> estimates;
  for (const int64_t length : lengths) {
    const ModelCost cost = CostOfForward(config, length);
    TextEstimate estimate{length};
    estimate.seconds = cost.linear_flops / probe.gemm_gflops / kGiga * kBesideProducts;
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const AttentionSpec& spec = config.layer_attention(layer);
      estimate.seconds += static_cast<double>(config.inner_group_num) *
                          CostOfAttention(spec, heads, head_dim, length).full_flops() / RateOf(probe, spec, length) /
                          kGiga;
    }
    estimate.bytes = process + weights + cost.activation_bytes + cost.attention_work_bytes;
    estimates.push_back(estimate);
  }
  return estimates;
}

Json EstimatesJson(const ModelConfig& config, int64_t parameters, const std::vector<int64_t>& lengths) {
  if (!HasCosts(config)) return nullptr;
  const SpeedProbe probe = ProbeSpeed(config);
  Json rates = Json::object(), texts = Json::array();
  for (const auto& [kind, rate] : probe.attention_gflops) rates[kind] = rate;
  for (const TextEstimate& estimate : EstimateTexts(config, probe, parameters, lengths))
    texts.push_back({{"length", estimate.length},
                     {"beyond_positions", estimate.length > config.max_position_embeddings},
                     {"seconds", estimate.seconds},
                     {"bytes", estimate.bytes}});
  return Json{
      {"threads", Threads()}, {"gemm_gflops", probe.gemm_gflops}, {"attention_gflops", rates}, {"texts", texts}};
}

}  // namespace lshformer
