#include "convert/quality.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/progress.h"
#include "base/signals.h"
#include "models/stored_directions.h"
#include "nn/pooling.h"

namespace lshformer {
namespace {

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
    const PackedBatch text = TextBatch(texts, number);
    means.push_back(Pool(model.Forward(text, options).last_hidden_state, text.tokens.cu_seqlens, Pooling::kMean));
    progress.Update(static_cast<int64_t>(means.size()));
  }
  return torch::cat(means);
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
  return Compare(states_, MeanStates(model, texts_, texts_.held_out, "recovered answers"));
}

void QualityMeter::Measure(const LayerDirections& directions, Candidate& candidate) {
  AttentionCounts counts;
  const ModelPtr model = WithAttention(exact_, candidate.attention, DirectionTensors(directions));
  candidate.cosine = Compare(states_, MeanStates(*model, texts_, texts_.held_out, "comparing answers", &counts));
  candidate.pairs_fraction = Share(counts);
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

namespace {

// What runs one attention in the place of another.
std::function<void()> RunAs(const AttentionSite& site, const AttentionSpec& spec, const LayerDirections& directions) {
  auto options = std::make_shared<AttentionOptions>(site.options);
  options->spec = std::make_shared<const AttentionSpec>(spec);
  if (site.visit < directions.size()) options->directions = directions[site.visit];
  options->drawn = std::make_shared<DrawnProjections>();
  torch::Tensor in = site.qkv;
  // Of kinds that share keys with queries the two have other inputs: queries and values alone.
  if (SlicesOf(spec) == 2) {
    const int64_t width = in.size(1) / 3;
    in = torch::cat({in.narrow(1, 0, width), in.narrow(1, 2 * width, width)}, 1).contiguous();
  }
  return [in, options] { SelfAttention(in, options); };
}

// What runs of one attention took, site by site.
struct Times {
  double least = 0;                                                 // Σ of the least
  std::vector<double> runs = std::vector<double>(kTimedRuns, 0.0);  // Σ of each run

  void Add(const std::vector<double>& of_site) {
    least += *std::min_element(of_site.begin(), of_site.end());
    for (int run = 0; run < kTimedRuns; ++run) runs[run] += of_site[run];
  }
};

double StandardDeviation(const std::vector<double>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return std::sqrt(squares / std::max(1.0, count - 1));
}

}  // namespace

void QualityMeter::MeasureTimes(const LayerDirections& directions, const std::vector<Candidate*>& candidates,
                                const std::string& title) {
  std::vector<Times> times(candidates.size() + 1);  // the last: exact attention's
  const std::vector<int64_t> numbers = FirstOf(texts_, texts_.held_out, kTimedTexts, kPartPairs);
  VisitAttention(exact_, texts_, numbers, title, [&](const AttentionSite& site) {
    std::vector<std::function<void()>> run;
    for (const Candidate* candidate : candidates) {
      const AttentionSpec& spec = candidate->attention[static_cast<size_t>(site.layer)];
      // Exact attention's time is that of exact attention.
      run.push_back(Is<DenseAttention>(spec) ? std::function<void()>() : RunAs(site, spec, directions));
    }
    run.push_back(RunAs(site, AttentionSpec{}, directions));
    std::vector<std::vector<double>> seconds(run.size(), std::vector<double>(kTimedRuns, 0.0));
    for (int i = -1; i < kTimedRuns; ++i) {  // the first time directions are drawn
      for (size_t c = 0; c < run.size(); ++c) {
        if (!run[c]) continue;
        const auto begin = std::chrono::steady_clock::now();
        run[c]();
        if (i >= 0) seconds[c][i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      }
    }
    for (size_t c = 0; c < run.size(); ++c) times[c].Add(run[c] ? seconds[c] : seconds.back());
    return torch::Tensor();
  });
  const Times& exact = times.back();
  for (size_t c = 0; c < candidates.size(); ++c) {
    candidates[c]->time_fraction = times[c].least / exact.least;
    std::vector<double> shares;
    for (int i = 0; i < kTimedRuns; ++i) shares.push_back(times[c].runs[i] / exact.runs[i]);
    candidates[c]->time_spread = StandardDeviation(shares);
  }
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
    options.spec = std::make_shared<const AttentionSpec>(attention[layer]);
    options.directions = directions.empty() ? StoredDirections{} : directions[site.visit];
    options.drawn = nullptr;
    const int64_t tokens = std::min<int64_t>(options.cu_seqlens()[1], kLongestRecall);
    options.sequences = std::make_shared<const PackedSequences>(PackedSequences{{0, static_cast<int32_t>(tokens)}, {}});
    std::vector<double> met(heads, 1.0);
    if (Is<ClusteredAttention>(*options.spec)) met = MassMet(site.qkv.narrow(0, 0, tokens), options);
    for (size_t head = 0; head < heads; ++head) recall[layer][head] += met[head];
    ++visits[layer];
    return torch::Tensor();
  });
  for (size_t layer = 0; layer < recall.size(); ++layer)
    for (double& share : recall[layer]) share /= std::max(1.0, visits[layer]);
  return recall;
}

}  // namespace lshformer
