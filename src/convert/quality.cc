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

constexpr int kWholeRuns = 5;
constexpr int64_t kLongestRecall = 1024;  // its readable form takes time with the square

constexpr int64_t kEnoughWords = 1000;  // for their loss to tell attentions apart better than tokens' cosines do

// The last hidden states of one text, [T, H].
torch::Tensor StatesOf(Model& model, const CalibrationTexts& texts, int64_t number, AttentionCounts* counts) {
  ForwardOptions options;
  options.counts = counts;
  options.stop = &StopOnSignal();
  return model.Forward(TextBatch(texts, number), options).last_hidden_state;
}

// Of the given mean and worst of texts, and the standard error of the mean.
Cosines OfTexts(const std::vector<double>& cosines) {
  const auto count = static_cast<double>(cosines.size());
  Cosines all;
  all.mean = std::accumulate(cosines.begin(), cosines.end(), 0.0) / count;
  all.worst = *std::min_element(cosines.begin(), cosines.end());
  double squares = 0;
  for (const double cosine : cosines) squares += (cosine - all.mean) * (cosine - all.mean);
  all.spread = std::sqrt(squares / (count - 1) / count);  // of one text 0 / 0
  return all;
}

}  // namespace

torch::Tensor MeanStates(Model& model, const CalibrationTexts& texts, const std::vector<int64_t>& numbers,
                         const std::string& title, AttentionCounts* counts) {
  const torch::NoGradGuard no_grad;
  ForwardOptions options;
  options.counts = counts;
  options.stop = &StopOnSignal();
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

QualityMeter::QualityMeter(Model& exact, const CalibrationTexts& texts, MaskedWords* masked)
    : exact_(exact), texts_(texts), masked_(masked) {
  constexpr const char* kTitle = "exact answers";
  const torch::NoGradGuard no_grad;
  Progress progress(kTitle, static_cast<int64_t>(texts.held_out.size()), "texts");
  for (const int64_t number : texts.held_out) {
    ThrowIfStopped(kTitle);
    states_.push_back(StatesOf(exact, texts, number, nullptr));
    if (!states_.back().isfinite().all().item<bool>())
      Fail("{}: text {}: the exact model's output is not finite",
           texts.files.empty() ? "the texts that come with the program" : Shown(texts.files.front(), 120), number + 1);
    progress.Update(static_cast<int64_t>(states_.size()));
  }
}

void QualityMeter::Compare(Model& model, const char* title, AttentionCounts* counts, Candidate& candidate) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> exact_means, means;
  std::vector<double> of_tokens;
  Progress progress(title, static_cast<int64_t>(states_.size()), "texts");
  for (size_t i = 0; i < states_.size(); ++i) {
    ThrowIfStopped(title);
    const torch::Tensor exact = states_[i].to(torch::kFloat64),
                        states = StatesOf(model, texts_, texts_.held_out[i], counts).to(torch::kFloat64);
    exact_means.push_back(exact.mean(0, /*keepdim=*/true));
    means.push_back(states.mean(0, /*keepdim=*/true));
    of_tokens.push_back(lshformer::Compare(exact, states).mean);
    progress.Update(static_cast<int64_t>(i) + 1);
  }
  candidate.cosine = lshformer::Compare(torch::cat(exact_means), torch::cat(means));
  candidate.token_cosine = OfTexts(of_tokens);
}

void QualityMeter::MeasureRecovered(Model& model, Candidate& candidate) {
  Compare(model, "recovered answers", nullptr, candidate);
  candidate.masked_loss_change = std::numeric_limits<double>::quiet_NaN();
  candidate.by_loss = false;
}

void QualityMeter::Measure(const LayerDirections& directions, Candidate& candidate) {
  AttentionCounts counts;
  const ModelPtr model = WithAttention(exact_, candidate.attention, DirectionTensors(directions));
  Compare(*model, "comparing answers", &counts, candidate);
  candidate.pairs_fraction = Share(counts, texts_.held_out);
  if (masked_ == nullptr) return;
  candidate.masked_loss_change = masked_->LossChange(candidate.attention, directions);
  candidate.by_loss = masked_->count() >= kEnoughWords;
}

// Of the pairs that the exact model computes: its local layers leave most out.
double QualityMeter::Share(const AttentionCounts& counts, const std::vector<int64_t>& numbers) const {
  double all = 0, computed = 0;
  for (const int64_t number : numbers) {
    const int64_t length = texts_.set.length(number);
    for (int64_t layer = 0; layer < exact_.config().num_hidden_layers; ++layer) {
      const AttentionSpec& spec = exact_.config().layer_attention(layer);
      const auto whole = static_cast<double>(length * length);
      all += whole;
      computed += IsConverted(spec) ? whole : static_cast<double>(PairsInWindows(spec.window, length));
    }
  }
  const double total = static_cast<double>(counts.pairs_total) * (all > 0 ? computed / all : 1);
  return static_cast<double>(counts.pairs_computed) / std::max(1.0, total);
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
  return Share(counts, numbers);
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
  std::vector<double> runs = std::vector<double>(kWholeRuns, 0.0);  // Σ of each run

  void Add(const std::vector<double>& of_site) {
    least += *std::min_element(of_site.begin(), of_site.end());
    for (int run = 0; run < kWholeRuns; ++run) runs[run] += of_site[run];
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
    if (!IsConverted(*site.options.spec)) return torch::Tensor();
    std::vector<std::function<void()>> run;
    for (const Candidate* candidate : candidates) {
      const AttentionSpec& spec = candidate->attention[static_cast<size_t>(site.layer)];
      // Exact attention's time is that of exact attention.
      run.push_back(Is<DenseAttention>(spec) ? std::function<void()>() : RunAs(site, spec, directions));
    }
    run.push_back(RunAs(site, AttentionSpec{}, directions));
    std::vector<std::vector<double>> seconds(run.size(), std::vector<double>(kWholeRuns, 0.0));
    for (int i = -1; i < kWholeRuns; ++i) {  // the first time directions are drawn
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
    for (int i = 0; i < kWholeRuns; ++i) shares.push_back(times[c].runs[i] / exact.runs[i]);
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
