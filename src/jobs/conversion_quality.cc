#include "jobs/conversion_quality.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/progress.h"
#include "base/signals.h"
#include "models/stored_directions.h"

namespace lshformer {
namespace {

constexpr size_t kTimedTexts = 6;
constexpr int kTimedRuns = 5;
constexpr int64_t kLongestRecall = 1024;  // its readable form takes time with the square

double Share(const AttentionCounts& counts) {
  return static_cast<double>(counts.pairs_computed) / static_cast<double>(std::max<int64_t>(1, counts.pairs_total));
}

}  // namespace

torch::Tensor MeanStates(Model& model, const CalibrationTexts& texts, const std::vector<int64_t>& numbers,
                         const std::string& title, AttentionCounts* counts) {
  const torch::NoGradGuard no_grad;
  ForwardOptions options;
  options.counts = counts;
  std::vector<torch::Tensor> means;
  Progress progress(title, static_cast<int64_t>(numbers.size()), "texts");
  for (const int64_t number : numbers) {
    ThrowIfStopped(title.c_str());
    const ModelOutput output = model.Forward(TextBatch(texts, number), options);
    means.push_back(output.last_hidden_state.to(torch::kFloat64).mean(0));
    progress.Update(static_cast<int64_t>(means.size()));
  }
  return torch::stack(means);
}

Cosines Compare(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor norms = (a.norm(2, 1) * b.norm(2, 1)).clamp_min(std::numeric_limits<double>::min());
  const torch::Tensor cosines = ((a * b).sum(1) / norms).clamp_max(1);  // rounded above; NaN stays
  return {cosines.mean().item<double>(), cosines.min().item<double>()};
}

QualityMeter::QualityMeter(Model& exact, const CalibrationTexts& texts)
    : exact_(exact), texts_(texts), states_(MeanStates(exact, texts, texts.held_out, "exact answers")) {
  const torch::Tensor finite = states_.isfinite().all(1);
  for (size_t i = 0; i < texts.held_out.size(); ++i)
    if (!finite[static_cast<int64_t>(i)].item<bool>())
      Fail("{}: text {}: the exact model's output is not finite",
           texts.files.empty() ? "the texts that come with the program" : Shown(texts.files.front(), 120),
           texts.held_out[i] + 1);
}

Cosines QualityMeter::CosineOf(Model& model) {
  return Compare(states_, MeanStates(model, texts_, texts_.held_out, "its answers"));
}

void QualityMeter::Measure(const LayerDirections& directions, Candidate& candidate) {
  AttentionCounts counts;
  {
    const ModelPtr model = WithAttention(exact_, candidate.attention, DirectionTensors(directions));
    candidate.cosine = Compare(states_, MeanStates(*model, texts_, texts_.held_out, candidate.name, &counts));
  }
  candidate.pairs_fraction = Share(counts);
  candidate.time_fraction = TimeFraction(directions, candidate.attention);
}

double QualityMeter::PairsFraction(const LayerDirections& directions, const std::vector<AttentionSpec>& attention,
                                   Texts of) {
  std::vector<int64_t> numbers = texts_.held_out;
  if (of == Texts::kAll) {
    numbers.resize(static_cast<size_t>(texts_.set.size()));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  const ModelPtr model = WithAttention(exact_, attention, DirectionTensors(directions));
  AttentionCounts counts;
  MeanStates(*model, texts_, numbers, "pairs", &counts);
  return Share(counts);
}

double QualityMeter::TimeFraction(const LayerDirections& directions, const std::vector<AttentionSpec>& attention) {
  using Clock = std::chrono::steady_clock;
  // Of kinds that share keys with queries the two have other inputs: queries and values alone.
  const auto run = [&](const AttentionSite& site, const AttentionSpec& spec) {
    auto options = std::make_shared<AttentionOptions>(site.options);
    options->spec = spec;
    if (site.visit < directions.size()) options->directions = directions[site.visit];
    options->drawn = std::make_shared<DrawnProjections>();
    torch::Tensor in = site.qkv;
    if (PartsOf(spec) == 2) {
      const int64_t width = in.size(1) / 3;
      in = torch::cat({in.narrow(1, 0, width), in.narrow(1, 2 * width, width)}, 1).contiguous();
    }
    return [in, options] { SelfAttention(in, options); };
  };
  std::vector<int64_t> numbers = texts_.held_out;
  if (numbers.size() > kTimedTexts) numbers.resize(kTimedTexts);
  double exact_seconds = 0, own_seconds = 0;
  VisitAttention(exact_, texts_, numbers, "times", [&](const AttentionSite& site) {
    const auto exact = run(site, AttentionSpec{}), own = run(site, attention[static_cast<size_t>(site.layer)]);
    double best_exact = std::numeric_limits<double>::infinity(), best_own = best_exact;
    for (int i = 0; i <= kTimedRuns; ++i) {  // the first time directions are drawn
      const auto begin = Clock::now();
      exact();
      const auto middle = Clock::now();
      own();
      best_own = std::min(best_own, std::chrono::duration<double>(Clock::now() - middle).count());
      best_exact = std::min(best_exact, std::chrono::duration<double>(middle - begin).count());
    }
    exact_seconds += best_exact;
    own_seconds += best_own;
    return torch::Tensor();
  });
  return own_seconds / exact_seconds;
}

std::vector<std::vector<double>> MassRecall(Model& exact, const CalibrationTexts& texts,
                                            const LayerDirections& directions,
                                            const std::vector<AttentionSpec>& attention) {
  const ModelConfig& config = exact.config();
  const auto heads = static_cast<size_t>(config.num_attention_heads);
  std::vector<std::vector<double>> recall(attention.size(), std::vector<double>(heads, 0.0));
  std::vector<double> visits(attention.size(), 0.0);
  const int64_t text = *std::max_element(texts.held_out.begin(), texts.held_out.end(), [&](int64_t a, int64_t b) {
    const auto useful = [&](int64_t i) { return std::min<int64_t>(texts.set.length(i), kLongestRecall); };
    return useful(a) < useful(b);
  });
  VisitAttention(exact, texts, {text}, "mass recall", [&](const AttentionSite& site) {
    const auto layer = static_cast<size_t>(site.layer);
    auto options = site.options;
    options.spec = attention[layer];
    options.directions = directions.empty() ? StoredDirections{} : directions[site.visit];
    options.drawn = nullptr;
    const int64_t tokens = std::min<int64_t>(options.cu_seqlens[1], kLongestRecall);
    options.cu_seqlens = {0, static_cast<int32_t>(tokens)};
    std::vector<double> met(heads, 1.0);
    if (Is<ClusteredAttention>(options.spec)) met = MassMet(site.qkv.narrow(0, 0, tokens), options);
    for (size_t head = 0; head < heads; ++head) recall[layer][head] += met[head];
    ++visits[layer];
    return torch::Tensor();
  });
  for (size_t layer = 0; layer < recall.size(); ++layer)
    for (double& share : recall[layer]) share /= std::max(1.0, visits[layer]);
  return recall;
}

}  // namespace lshformer
