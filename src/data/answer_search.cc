#include "data/answer_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/json.h"

namespace lshformer {
namespace {

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

const OptionTable<AnswerOptions>& AnswerTable() {
  using A = AnswerOptions;
  constexpr int64_t kMostNBest = 1000;  // an excerpt has up to n_best_size² candidates
  const auto without_version_2 = [](const A& answers) -> std::string {
    return answers.version_2 ? "" : fmt::format("needs {}", OptionName{"version_2_with_negative"});
  };
  static const OptionTable<A> table{
      {Integer("doc_stride", &A::doc_stride, -1, INT32_MAX,
               "tokens that neighbouring excerpts of a long context share; -1: a third of max_seq_length, at most 128"),
       Integer("max_query_length", &A::max_query_length, 0, INT32_MAX,
               "tokens of a question that are read, the first ones; 0: all"),
       Boolean("version_2_with_negative", &A::version_2, "SQuAD 2.0: a question may have no answer"),
       Integer("max_answer_length", &A::max_answer_length, 1, INT32_MAX, "tokens of an answer, at most").WorksAfter(),
       Integer("n_best_size", &A::n_best_size, 1, kMostNBest,
               "places of the start, of the end, and answers, to choose from")
           .WorksAfter(),
       Path("null_score_diff_threshold_from", &A::threshold_from, "FILE",
            "the threshold that was best for other questions: \"eval_best_f1_thresh\" of an eval_results.json")
           .WorksAfter()
           .MeaninglessIf(without_version_2),
       Number("null_score_diff_threshold", &A::null_score_diff_threshold, {},
              "SQuAD 2.0: no answer where none's score minus the best one's is above")
           .WorksAfter()
           .MeaninglessIf([=](const A& answers) {
             if (answers.threshold_from.empty()) return without_version_2(answers);
             return fmt::format("{} has one", OptionName{"null_score_diff_threshold_from"});
           })},
      nullptr,
      {},
      "Question answering"};
  return table;
}

AnswerOptions WithThreshold(AnswerOptions options) {
  if (options.threshold_from.empty()) return options;
  const Json results = ReadJsonObject(options.threshold_from);
  if (!HasValue(results, "eval_best_f1_thresh"))
    Fail("{}: no \"eval_best_f1_thresh\": not of an evaluation of questions with {}", options.threshold_from,
         OptionName{"version_2_with_negative"});
  options.null_score_diff_threshold = GetNumber(results, "eval_best_f1_thresh", options.threshold_from);
  options.threshold_from.clear();
  return options;
}

void AnswerSearch::AddExcerpt(std::span<const float> start_logits, std::span<const float> end_logits,
                              const SquadExcerpt& excerpt, const TokenPlaces& places) {
  const AnswerCandidate null{0, 0, start_logits[0], end_logits[0]};
  if (!null_ || null_->score() > null.score()) null_ = null;
  const std::vector<int32_t> ends = Largest(end_logits, options_.n_best_size);
  for (const int32_t start : Largest(start_logits, options_.n_best_size))
    for (const int32_t end : ends)
      Offer({start, end, start_logits[static_cast<size_t>(start)], end_logits[static_cast<size_t>(end)]}, excerpt,
            places);
}

void AnswerSearch::AddExcerpt(const AnswerBeam& beam, const SquadExcerpt& excerpt, const TokenPlaces& places) {
  no_answer_ = std::min(no_answer_.value_or(beam.no_answer), beam.no_answer);
  for (const AnswerBeam::Span& span : beam.spans) Offer(span, excerpt, places);
}

void AnswerSearch::Offer(const AnswerBeam::Span& span, const SquadExcerpt& excerpt, const TokenPlaces& places) {
  const int32_t first = excerpt.first, last = first + excerpt.tokens.end - excerpt.tokens.begin;
  if (span.start < first || span.end >= last || span.end < span.start) return;
  if (span.end - span.start >= options_.max_answer_length) return;
  const bool full = best_.size() == static_cast<size_t>(options_.n_best_size);
  if (full && span.score() <= best_.back().score()) return;
  const auto place = [&](int32_t token) { return places[static_cast<size_t>(excerpt.tokens.begin + token - first)]; };
  InsertSorted(best_, {place(span.start).first, place(span.end).second, span.start_score, span.end_score});
  if (full) best_.pop_back();
}

FoundAnswer AnswerSearch::Finish() const {
  FoundAnswer found;
  found.best = best_;
  AnswerCandidate null = null_.value_or(AnswerCandidate{});
  if (no_answer_) null.start_logit = *no_answer_ + (best_.empty() ? 0 : best_[0].score());
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
  found.null_odds =
      no_answer_ ? *no_answer_ : static_cast<double>(null.score() - found.answer.start_logit - found.answer.end_logit);
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
