#include "data/answer_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace lshformer {
namespace {

// The `count` largest, best first; of equals the later one.
std::vector<int32_t> Largest(std::span<const float> values, int count) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto last = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), last, order.end(), [&](int32_t a, int32_t b) {
    const float left = values[static_cast<size_t>(a)], right = values[static_cast<size_t>(b)];
    return left > right || (left == right && a > b);
  });
  order.erase(last, order.end());
  return order;
}

// Behind all candidates that are as good: the earlier found of equals stays first.
void InsertSorted(std::vector<AnswerCandidate>& best, const AnswerCandidate& candidate) {
  const auto place = std::upper_bound(best.begin(), best.end(), candidate,
                                      [](const auto& a, const auto& b) { return a.score() > b.score(); });
  best.insert(place, candidate);
}

std::vector<double> Softmax(const std::vector<AnswerCandidate>& candidates) {
  std::vector<double> probabilities;
  double largest = candidates[0].score(), sum = 0;
  for (const AnswerCandidate& candidate : candidates) largest = std::max<double>(largest, candidate.score());
  for (const AnswerCandidate& candidate : candidates) {
    probabilities.push_back(std::exp(candidate.score() - largest));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

void ValidateAnswerOptions(const AnswerOptions& options) {
  if (options.n_best_size < 1 || options.n_best_size > kMostNBest)
    FailOption("n_best_size", "expected 1 to {}, got {}", kMostNBest, options.n_best_size);
  if (options.max_answer_length < 1)
    FailOption("max_answer_length", "expected at least 1, got {}", options.max_answer_length);
  if (!std::isfinite(options.null_score_diff_threshold))
    FailOption("null_score_diff_threshold", "expected a number, got {}", options.null_score_diff_threshold);
}

void AnswerSearch::AddWindow(std::span<const float> start_logits, std::span<const float> end_logits,
                             const SquadWindow& window, const TokenPlaces& places) {
  const AnswerCandidate null{0, 0, start_logits[0], end_logits[0]};
  if (!null_ || null_->score() > null.score()) null_ = null;
  const int32_t first = window.first, last = first + window.tokens.end - window.tokens.begin;
  const auto in_context = [&](int32_t token) { return token >= first && token < last; };
  const auto place = [&](int32_t token) { return places[static_cast<size_t>(window.tokens.begin + token - first)]; };
  const std::vector<int32_t> ends = Largest(end_logits, options_.n_best_size);
  for (const int32_t start : Largest(start_logits, options_.n_best_size)) {
    if (!in_context(start)) continue;
    for (const int32_t end : ends) {
      if (!in_context(end) || end < start || end - start >= options_.max_answer_length) continue;
      const AnswerCandidate candidate{place(start).first, place(end).second, start_logits[static_cast<size_t>(start)],
                                      end_logits[static_cast<size_t>(end)]};
      const bool full = best_.size() == static_cast<size_t>(options_.n_best_size);
      if (full && candidate.score() <= best_.back().score()) continue;
      InsertSorted(best_, candidate);
      if (full) best_.pop_back();
    }
  }
}

FoundAnswer AnswerSearch::Finish() const {
  FoundAnswer found;
  found.best = best_;
  const AnswerCandidate null = null_.value_or(AnswerCandidate{});
  if (options_.version_2) {
    InsertSorted(found.best, null);
    // Kept even where it is not among the best.
    if (found.best.size() > static_cast<size_t>(options_.n_best_size) && !found.best.back().none())
      found.best.pop_back();
  }
  if (found.best.empty()) found.best.emplace_back();
  found.probabilities = Softmax(found.best);
  if (!best_.empty()) found.answer = best_[0];
  if (!options_.version_2) return found;
  found.null_odds = static_cast<double>(null.score() - found.answer.start_logit - found.answer.end_logit);
  if (best_.empty() || found.null_odds > options_.null_score_diff_threshold) found.answer = null;
  return found;
}

FoundAnswer WithoutRepetitions(FoundAnswer found) {
  std::vector<AnswerCandidate> once;
  for (const AnswerCandidate& candidate : found.best) {
    const bool known = std::any_of(once.begin(), once.end(), [&](const AnswerCandidate& other) {
      return other.begin == candidate.begin && other.end == candidate.end;
    });
    if (!known) once.push_back(candidate);
  }
  found.best = std::move(once);
  found.probabilities = Softmax(found.best);
  return found;
}

}  // namespace lshformer
