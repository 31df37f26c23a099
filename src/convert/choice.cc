#include "convert/choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "convert/thresholds.h"

namespace lshformer {
namespace {

constexpr double kFrontierBudgets[] = {0.0625, 0.125, 0.25, 0.5};
constexpr int kOpen[] = {1, 2, 4};  // of heads that are all alike
constexpr const char *kPolicy = "head by head", *kAlike = "all heads alike", *kBundles = "all heads alike, bundles";

double CostOf(const Candidate& candidate, HeadCost of) {
  return of == HeadCost::kTime ? candidate.time_fraction : candidate.pairs_fraction;
}

const char* OptionOf(HeadCost of) { return of == HeadCost::kTime ? "budget_time" : "budget_pairs"; }

}  // namespace

std::optional<size_t> BestWithin(const std::vector<Candidate>& candidates, const ConversionBudget& budget) {
  std::optional<size_t> best;
  const auto cosine = [&](size_t i) { return candidates[i].token_cosine.mean; };
  const auto lost = [&](size_t i) { return candidates[i].Lost(); };
  const auto cost = [&](size_t i) { return CostOf(candidates[i], budget.of); };
  for (const bool other_kinds : {false, true}) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].comparison || candidates[i].other_kind != other_kinds) continue;
      if (!(cost(i) <= budget.share) || std::isnan(lost(i))) continue;
      if (!best) {
        if (!other_kinds) best = i;
        continue;
      }
      // Without a spread, of one text, nothing is beyond it.
      const double spread = std::min(candidates[i].token_cosine.spread, candidates[*best].token_cosine.spread);
      const bool better = other_kinds ? cosine(i) - cosine(*best) > spread
                                      : lost(i) < lost(*best) || (lost(i) == lost(*best) && cost(i) < cost(*best));
      if (better) best = i;
    }
  }
  return best;
}

namespace {

class Chooser {
 public:
  explicit Chooser(const ConversionField& field) : field_(field) {}

  std::vector<Candidate> Within(const ConversionBudget& budget) {
    menu_ = HeadMenu(field_.base, budget.of, field_.texts.set.max_length());
    SetThresholds(menu_);
    table_ =
        MeasureHeads(field_.exact, field_.texts, field_.directions, menu_, field_.from, budget.of == HeadCost::kTime);
    std::optional<Candidate> policy = KeepBudget(budget, QualityMeter::Texts::kAll);
    has_policy_ = policy.has_value();
    if (has_policy_) Add(std::move(*policy), /*with_pairs=*/budget.of == HeadCost::kTime);
    timed_ = has_policy_ && budget.of == HeadCost::kTime;
    AddOtherBudgets(budget);
    AddOthers(budget.of);
    MeasureTimes();
    if (budget.of == HeadCost::kPairs) CountPairsOfRivals(budget.share);
    const std::optional<size_t> best = BestWithin(all_, budget);
    if (!best && std::any_of(all_.begin(), all_.end(), [](auto& c) { return std::isnan(c.cosine.mean); }))
      Fail("the converted model's output is not finite");
    if (!best) {
      double least = std::numeric_limits<double>::infinity();
      for (const Candidate& candidate : all_)
        if (!candidate.other_kind) least = std::min(least, CostOf(candidate, budget.of));
      Fail(  // of these texts and this machine, not of how the command is used
          "{}: nothing that was measured keeps to {:.4g}: what heads cost together is more than the sum of each; the "
          "least is {:.4g}",
          OptionName{OptionOf(budget.of)}, budget.share, least);
    }
    Candidate chosen = all_[*best];
    const bool by_policy = has_policy_ && *best == 0;
    chosen.setting = chosen.name + (chosen.setting.empty() ? "" : ", " + chosen.setting);
    chosen.name = "this conversion";
    chosen.budget = budget.share;
    if (budget.of == HeadCost::kTime) chosen.pairs_fraction = PairsOfAll(chosen);
    if (by_policy) {
      all_.front() = std::move(chosen);
    } else {
      all_[*best].pairs_fraction = chosen.pairs_fraction;
      all_.insert(all_.begin(), std::move(chosen));
    }
    return std::move(all_);
  }

  std::vector<Candidate> Beside(std::vector<AttentionSpec> asked) {
    Candidate conversion;
    conversion.name = "this conversion";
    conversion.attention = std::move(asked);
    Add(std::move(conversion));
    AddOthers(HeadCost::kPairs);
    MeasureTimes();
    all_.front().pairs_fraction = PairsOfAll(all_.front());
    return std::move(all_);
  }

 private:
  double PairsOfAll(const Candidate& candidate) {
    return field_.meter.PairsFraction(field_.directions, candidate.attention, QualityMeter::Texts::kAll);
  }

  // The policy of a budget; what it costs is measured as a whole, and the budget drawn tighter until that keeps it.
  // Nothing: it does not come down to that.
  std::optional<Candidate> KeepBudget(const ConversionBudget& budget, QualityMeter::Texts texts) {
    constexpr int kTries = 6;
    const bool time = budget.of == HeadCost::kTime;
    double target = budget.share;
    Candidate candidate;
    candidate.name = kPolicy;
    candidate.budget = budget.share;
    for (int i = 0; i < kTries; ++i) {
      candidate.attention = Policy(budget.of, target);
      if (time) {
        field_.meter.MeasureTimes(field_.directions, {&candidate}, "times");
      } else {
        candidate.pairs_fraction = field_.meter.PairsFraction(field_.directions, candidate.attention, texts);
      }
      const double real = CostOf(candidate, budget.of);
      if (real <= budget.share) {
        drawn_tighter_ = target / budget.share;
        return candidate;
      }
      target *= 0.998 * budget.share / real;
      try {
        Policy(budget.of, target);
      } catch (const BudgetTooSmall&) {  // even the cheapest settings cost more
        return {};
      }
    }
    return {};
  }

  std::vector<AttentionSpec> Policy(HeadCost of, double target) {
    const torch::Tensor& cost = of == HeadCost::kTime ? table_.time : table_.pairs;
    const ModelConfig& config = field_.exact.config();
    std::vector<AttentionSpec> specs = SpecsOf(ChooseSettings(table_, cost, target, OptionOf(of)), menu_);
    for (size_t layer = 0; layer < specs.size(); ++layer) {
      const AttentionSpec& own = config.layer_attention(static_cast<int64_t>(layer));
      if (!IsConverted(own)) specs[layer] = own;
    }
    return specs;
  }

  // Those that settings have beside a number of clusters to open.
  void SetThresholds(std::vector<HeadSetting>& settings) {
    const auto asked = [](const HeadSetting& setting) {
      return Is<ClusteredAttention>(setting.spec) && As<ClusteredAttention>(setting.spec).threshold.has_value();
    };
    std::vector<AttentionSpec> specs;
    for (const HeadSetting& setting : settings)
      if (asked(setting)) specs.push_back(setting.spec);
    const std::vector<double> found = FindThresholds(field_.exact, field_.texts, field_.directions, specs);
    size_t next = 0;
    for (HeadSetting& setting : settings) {
      if (!asked(setting)) continue;
      As<ClusteredAttention>(setting.spec).threshold = found[next++];
      setting.name = ShortName(setting.spec);
    }
  }

  // What a budget of time so leads to is measured with all others, so as to begin nothing anew for each; its pairs
  // are counted in the pass that compares answers.
  void AddOtherBudgets(const ConversionBudget& budget) {
    for (const double share : kFrontierBudgets) {
      if (share == budget.share) continue;
      try {
        std::optional<Candidate> other;
        if (budget.of == HeadCost::kPairs) {
          other = KeepBudget({budget.of, share}, QualityMeter::Texts::kHeldOut);
        } else {
          other.emplace();
          other->name = kPolicy;
          other->budget = share;
          other->attention = Policy(budget.of, share * drawn_tighter_);
        }
        if (other) Add(std::move(*other));
      } catch (const BudgetTooSmall&) {  // these texts are too short for it
      }
    }
  }

  // Heads that are all alike, and the other kinds.
  void AddOthers(HeadCost cost) {
    const ModelConfig& config = field_.exact.config();
    const auto add = [&](const std::string& name, const std::string& setting, const AttentionSpec& spec) {
      Candidate candidate;
      candidate.name = name;
      candidate.setting = setting;
      candidate.attention = PerLayer(spec, config);
      candidate.comparison = !Is<ClusteredAttention>(spec) && field_.only_clustered;
      candidate.other_kind = !Is<ClusteredAttention>(spec);
      Add(std::move(candidate));
    };
    for (const AttentionSpec& kind : AttentionKinds()) {
      if (!IsSparse(kind)) continue;
      if (!Is<ClusteredAttention>(kind)) {
        AttentionSpec spec = kind;
        spec.min_length = 0;
        spec.seed = field_.seed;
        add(Name(spec), "", spec);
        continue;
      }
      AttentionSpec spec = field_.base;
      for (const int open : kOpen) {
        As<ClusteredAttention>(spec).open = {open};
        add(kAlike, fmt::format("open {}", open), spec);
      }
      if (cost == HeadCost::kTime) add(kBundles, "", BundledSetting(spec));
      std::vector<HeadSetting> of_long_texts = LongTextSettings(field_.base, field_.texts.set.max_length());
      SetThresholds(of_long_texts);
      for (const HeadSetting& setting : of_long_texts) add(kAlike, setting.name, setting.spec);
    }
  }

  // with_pairs: those of held-out texts; else the candidate has its own.
  void Add(Candidate candidate, bool with_pairs = true) {
    const double pairs = candidate.pairs_fraction;
    field_.meter.Measure(field_.directions, candidate);
    if (!with_pairs) candidate.pairs_fraction = pairs;
    all_.push_back(std::move(candidate));
  }

  // Of all but a policy whose time is what it was chosen by.
  void MeasureTimes() {
    std::vector<Candidate*> rows;
    for (Candidate& candidate : all_)
      if (!timed_ || &candidate != &all_.front()) rows.push_back(&candidate);
    field_.meter.MeasureTimes(field_.directions, rows, "times of all");
  }

  void CountPairsOfRivals(double budget) {
    constexpr double kNear = 1.25;  // texts that are held out and all of them do not differ by more
    const double most = has_policy_ ? all_.front().Lost() : std::numeric_limits<double>::infinity();
    for (size_t i = has_policy_ ? 1 : 0; i < all_.size(); ++i)
      if (all_[i].Lost() <= most && all_[i].pairs_fraction <= kNear * budget)
        all_[i].pairs_fraction = PairsOfAll(all_[i]);
  }

  const ConversionField& field_;
  std::vector<HeadSetting> menu_;
  HeadTable table_;
  std::vector<Candidate> all_;
  double drawn_tighter_ = 1;  // what a budget was multiplied by to be kept
  bool has_policy_ = false;   // it is the first of all
  bool timed_ = false;        // and has its time
};

}  // namespace

std::vector<Candidate> ChooseWithin(const ConversionField& field, const ConversionBudget& budget) {
  return Chooser(field).Within(budget);
}

std::vector<Candidate> CompareBeside(const ConversionField& field, std::vector<AttentionSpec> asked) {
  return Chooser(field).Beside(std::move(asked));
}

double ConversionWork::Attention(const std::vector<int64_t>& numbers) const {
  double pairs = 0;
  for (const int64_t number : numbers) pairs += std::pow(static_cast<double>(texts.set.length(number)), 2);
  return 8 * pairs * static_cast<double>(config.hidden_size * config.num_hidden_layers);
}

double ConversionWork::Forward(const std::vector<int64_t>& numbers) const {
  double tokens = 0;
  for (const int64_t number : numbers) tokens += texts.set.length(number);
  const auto hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double of_a_token = 8 * hidden * hidden + (config.shape.gated ? 6 : 4) * hidden * inner;
  return tokens * of_a_token * static_cast<double>(config.num_hidden_layers) + Attention(numbers);
}

std::vector<ProgressPhase> PhasesOfChoice(const ConversionWork& work, const AttentionSpec& base,
                                          std::optional<HeadCost> budget_of) {
  // Of exact attention: what other settings take, a menu's on average and an attention as a whole.
  constexpr double kOther = 0.4, kWhole = 0.7;
  constexpr int kRuns = 6;  // of everything that is timed
  const CalibrationTexts& texts = work.texts;
  const double layers = static_cast<double>(work.config.num_hidden_layers);
  const double all = kWhole * work.Forward(texts.fitted) + kWhole * work.Forward(texts.held_out);
  const double compared = kWhole * work.Forward(texts.held_out);
  const auto part = FirstOf(texts, texts.fitted, kMostErrorTexts, kPartPairs);
  const auto weighed = FirstOf(texts, texts.fitted, kMostWeightTexts, kPartPairs);
  const auto timed = FirstOf(texts, texts.held_out, kTimedTexts, kPartPairs);
  int rows = 1 + static_cast<int>(std::size(kOpen)) + 2 +
             static_cast<int>(LongTextSettings(base, texts.set.max_length()).size());
  std::vector<ProgressPhase> phases;
  if (budget_of) {
    const bool time = *budget_of == HeadCost::kTime;
    const auto menu = static_cast<double>(HeadMenu(base, *budget_of, texts.set.max_length()).size());
    phases.push_back({"errors of heads", work.Forward(part) + kOther * menu * work.Attention(part)});
    phases.push_back({"weights of layers", (layers + 1) * work.Forward(weighed), static_cast<int>(layers) + 1});
    if (time) {
      phases.push_back(
          {"times of heads", work.Forward(timed) + kRuns * kOther * menu * work.Attention(timed) / layers});
      phases.push_back({"times", 2 * (work.Forward(timed) + kRuns * (1 + kWhole) * work.Attention(timed)), 2});
    } else {
      phases.push_back({"pairs", all});
    }
    rows += static_cast<int>(std::size(kFrontierBudgets)) + (time ? 1 : 0);
  }
  phases.push_back({"comparing answers", rows * compared, rows});
  phases.push_back({"times of all", work.Forward(timed) + kRuns * (1 + kWhole * rows) * work.Attention(timed)});
  if (budget_of != HeadCost::kPairs) phases.push_back({"pairs", all});
  return phases;
}

}  // namespace lshformer
