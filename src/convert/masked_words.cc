#include "convert/masked_words.h"

#include <algorithm>
#include <utility>

#include "base/progress.h"
#include "base/signals.h"
#include "data/masking.h"
#include "models/stored_directions.h"

namespace lshformer {
namespace {

constexpr double kHiddenShare = 0.15;
constexpr const char* kMaskedWords = "masked words";

}  // namespace

MaskedWords::MaskedWords(ModelPtr exact, const CalibrationTexts& texts, const Tokenizer& tokenizer, uint64_t seed)
    : exact_(std::move(exact)) {
  const Masker masker(tokenizer, kHiddenShare, seed);
  for (const int64_t number : texts.held_out) {
    PackedBatch batch = MakeMaskedBatch(texts.set, std::vector<int64_t>{number}, masker, /*visit=*/0);
    const std::vector<int32_t>& labels = batch.labels.tokens;
    const int64_t hidden =
        std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != kIgnoredLabel; });
    if (hidden == 0) continue;
    count_ += hidden;
    counts_.push_back(hidden);
    batches_.push_back(std::move(batch));
  }
  exact_loss_ = Loss(*exact_);
}

double MaskedWords::LossChange(const std::vector<AttentionSpec>& attention, const LayerDirections& directions) {
  return Loss(*WithAttention(*exact_, attention, DirectionTensors(directions))) - exact_loss_;
}

double MaskedWords::Loss(Model& model) {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  Progress progress(kMaskedWords, static_cast<int64_t>(batches_.size()), "texts");
  for (size_t i = 0; i < batches_.size(); ++i) {
    ThrowIfStopped(kMaskedWords);
    sum += model.Forward(batches_[i], {.stop = &StopOnSignal()}).loss.item<double>() * static_cast<double>(counts_[i]);
    progress.Update(static_cast<int64_t>(i) + 1);
  }
  return sum / static_cast<double>(std::max<int64_t>(1, count_));
}

}  // namespace lshformer
