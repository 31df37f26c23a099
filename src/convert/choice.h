// Which attention a conversion writes: of all that were measured within its budget the one that keeps most.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "convert/head_policy.h"
#include "convert/quality.h"

namespace lshformer {

struct ConversionBudget {
  HeadCost of;
  double share;  // of exact attention's pairs or time
};

// The number of the candidate that is to be written: the largest mean cosine within the budget, of equals the cheapest.
// One of another kind wins where it is larger by more than the spread of either. Nothing: none keeps to the budget.
std::optional<size_t> BestWithin(const std::vector<Candidate>& candidates, const ConversionBudget& budget);

// What there is to choose from, and what it is measured with.
struct ConversionField {
  Model& exact;
  const CalibrationTexts& texts;
  const LayerDirections& directions;
  QualityMeter& meter;
  AttentionSpec base;  // clustered; of which settings keep what they do not set
  AnswersFrom from = AnswersFrom::kMeanState;
  uint64_t seed = 0;            // of other kinds
  bool only_clustered = false;  // those are there to compare alone, whatever they keep
};

// Everything that was measured, the first of it to be written: its pairs, unlike most of the others', are those of all
// texts. `name` of it is "this conversion", and `setting` says which of the others it is.
//
// A budget's policy (convert/head_policy.h), then other budgets, heads that are all alike, and the other kinds. Under a
// budget of pairs those of all texts count, so they are counted of each row that keeps more than the policy's and may
// be within it. UsageError: nothing keeps to the budget.
std::vector<Candidate> ChooseWithin(const ConversionField& field, const ConversionBudget& budget);
// An attention that was asked for, and what stands beside it.
std::vector<Candidate> CompareBeside(const ConversionField& field, std::vector<AttentionSpec> asked);

// What reading texts takes, for estimates of what is left: multiplications and additions, those of attention twice.
struct ConversionWork {
  const ModelConfig& config;
  const CalibrationTexts& texts;
  double Forward(const std::vector<int64_t>& numbers) const;    // of exact attention, the whole model
  double Attention(const std::vector<int64_t>& numbers) const;  // of that, attention alone
};
// The phases of the two (base/progress.h).
std::vector<ProgressPhase> PhasesOfChoice(const ConversionWork& work, const AttentionSpec& base,
                                          std::optional<HeadCost> budget_of);

}  // namespace lshformer
