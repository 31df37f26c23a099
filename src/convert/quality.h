// How much of a model's answers another attention keeps, and what it costs, on texts that calibrated nothing.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "convert/calibration.h"
#include "convert/masked_words.h"
#include "eval/cosines.h"

namespace lshformer {

// The mean of last_hidden_state over the tokens of each text, [texts, H], float64. counts: added to where given.
torch::Tensor MeanStates(Model& model, const CalibrationTexts& texts, const std::vector<int64_t>& numbers,
                         const std::string& title, AttentionCounts* counts = nullptr);

inline constexpr size_t kTimedTexts = 6;  // of those held out, at most

// One attention of the same weights.
struct Candidate {
  std::string name;
  std::string setting = "";                   // which of that name; "": there is one, or its budget tells
  std::vector<AttentionSpec> attention = {};  // by layer
  double budget = 0;                          // that it was chosen for; 0: none
  bool other_kind = false;                    // than clustered attention
  bool comparison = false;                    // never to be chosen
  Cosines cosine = {};                        // of the mean states of held-out texts,
  Cosines token_cosine = {};                  // and of their tokens' states, on average over the tokens of each
  // Of hidden words, nats; NaN: the model has no head for them. by_loss: there are enough to choose by.
  double masked_loss_change = std::numeric_limits<double>::quiet_NaN();
  bool by_loss = false;
  double pairs_fraction = 1;  // computed, of all pairs of held-out texts
  double time_fraction = 1;   // of attention, of exact attention's, on some of the texts,
  double time_spread = 0;     // and the standard deviation of that over the runs

  // What it loses beside the exact model, which candidates are chosen by. A mean state forgives what single words do
  // not, so it is their loss where that is known, else what is missing in their cosine.
  double Lost() const { return by_loss ? masked_loss_change : 1 - token_cosine.mean; }
};

// Measures candidates beside the exact model.
class QualityMeter {
 public:
  // masked: of a model that has a head for masked words, else null; outlives this. Work memory: the states of the
  // held-out texts, [tokens, H] float32.
  QualityMeter(Model& exact, const CalibrationTexts& texts, MaskedWords* masked = nullptr);
  // Fills in the cosines, the loss of masked words and the pairs. The directions are those that its specs may ask for.
  void Measure(const LayerDirections& directions, Candidate& candidate);
  // Only the pairs. Of all texts it takes several times as long as of those that are held out.
  enum class Texts { kAll, kHeldOut };
  double PairsFraction(const LayerDirections& directions, const std::vector<AttentionSpec>& attention, Texts of);
  // Fills in the times: all candidates in turn with exact attention, five times and one to begin with. The share is of
  // the least times of each attention of each text.
  void MeasureTimes(const LayerDirections& directions, const std::vector<Candidate*>& candidates,
                    const std::string& title);
  // Fills in the cosines of a model with weights of its own; what its masked words lose is unknown then.
  void MeasureRecovered(Model& model, Candidate& candidate);

 private:
  void Compare(Model& model, const char* title, AttentionCounts* counts, Candidate& candidate);
  double Share(const AttentionCounts& counts, const std::vector<int64_t>& numbers) const;

  Model& exact_;
  const CalibrationTexts& texts_;
  MaskedWords* masked_;
  std::vector<torch::Tensor> states_;  // of the exact model, by held-out text, [T, H]
};

// By layer and head, the share of exact attention's probability on keys that queries meet themselves, on one text of at
// most a thousand tokens; 1 of exact heads.
std::vector<std::vector<double>> MassRecall(Model& exact, const CalibrationTexts& texts,
                                            const LayerDirections& directions,
                                            const std::vector<AttentionSpec>& attention);

}  // namespace lshformer
