// Which attention each head of a converted model gets: the cheapest for what it does.
//
// A menu of settings. Along the exact model's states, for each setting, layer and head
//   error = Σ_t |Δ_t W|² / n + 3 · |Σ_t Δ_t W / n|²      (of single words: without the second part)
// with Δ_t [head_dim] what the head's result for token t changes and W the head's part of the map behind attention. A
// layer's weight is what an answer loses (1 − cosine of the mean state, or of each token's, on average) when that layer
// alone has the menu's middle setting, over the sum of its heads' errors then. Each head gets the setting with the
// least weight · error + λ · cost, with λ by bisection the least that keeps the sum of costs within the budget.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "convert/calibration.h"

namespace lshformer {

// Of the fitted texts, errors of heads, weights of layers and times of heads are measured on so many, and of long ones
// on fewer (kPartPairs).
inline constexpr size_t kMostErrorTexts = 24, kMostWeightTexts = 8, kMostTimedTexts = 4;

struct HeadSetting {
  std::string name;  // ShortName of the spec
  AttentionSpec spec;
};
enum class HeadCost { kPairs, kTime };  // what a budget is of
// Settings that may be worth their cost; exact is the last. `base`: a clustered spec, of which the settings keep what
// they do not set. `longest`: tokens of the longest text. Long ones have wider windows, more groups of queries, and
// clusters of clusters from 4,096 tokens on to choose from. Those with a threshold have it still to be found
// (convert/thresholds.h).
std::vector<HeadSetting> HeadMenu(const AttentionSpec& base, HeadCost cost, int64_t longest = 0);
// Of those, settings that serve all heads of long texts alike; none of short texts.
std::vector<HeadSetting> LongTextSettings(const AttentionSpec& base, int64_t longest);

// The setting of a budget of time that serves most heads of long texts.
AttentionSpec BundledSetting(const AttentionSpec& base);

// Sums and shares over the texts, of layers of the config (visits of one layer together), heads and settings.
struct HeadTable {
  torch::Tensor error;   // [layers, heads, settings], float64
  torch::Tensor weight;  // [layers]
  torch::Tensor pairs;   // [layers, settings]: of one head, as a share of exact attention's in the whole model
  torch::Tensor time;    // [layers, settings], likewise
};
// What a model's answers are made of: a text's mean state, or, as where it points to an answer, those of single words,
// which may go wrong while their mean stays.
enum class AnswersFrom { kMeanState, kTokenStates };
// On some of the fitted texts; `timed`: with `time`.
HeadTable MeasureHeads(Model& exact, const CalibrationTexts& texts, const LayerDirections& directions,
                       const std::vector<HeadSetting>& menu, AnswersFrom from, bool timed);

// Of one attention, by layer and head: the error above, over the sum of exact attention's |O_t W|², and the share of a
// head's pairs that are computed. On some of the held-out texts.
struct HeadCosts {
  std::vector<std::vector<double>> error, pairs;
};
HeadCosts MeasureCosts(Model& exact, const CalibrationTexts& texts, const LayerDirections& directions,
                       const std::vector<AttentionSpec>& attention);

// Even the cheapest settings cost more on these texts. It tells what they cost.
class BudgetTooSmall : public Error {
 public:
  using Error::Error;
};

// [layers][heads] → setting. Costs are table.pairs or table.time. Error: BudgetTooSmall.
using HeadChoice = std::vector<std::vector<int>>;
HeadChoice ChooseSettings(const HeadTable& table, const torch::Tensor& cost, double budget, const char* budget_option);

// As a config has it.
std::vector<AttentionSpec> SpecsOf(const HeadChoice& choice, const std::vector<HeadSetting>& menu);

}  // namespace lshformer
