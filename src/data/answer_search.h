// From start and end logits of all excerpts of a context to the best answers, as HF's postprocess_qa_predictions.
//
// A candidate is a pair (start, end) of context tokens of one excerpt, start among the n_best_size largest start logits
// of that excerpt (all of its tokens compete), end among its largest end logits, start ≤ end < start +
// max_answer_length; its score is the sum of the two logits, in float32. The n_best_size best candidates of all
// excerpts are kept, of equal ones the earlier found. No-answer's score is the smallest start[0] + end[0] (those of
// [CLS]) of all excerpts: each of them must find no answer.
//   null_odds = null score − best candidate's start logit − its end logit
// and with version_2 the answer is none where null_odds > null_score_diff_threshold. Of equal logits the later token
// comes first, as numpy's stable sort has it.
//
// An excerpt may come as a beam instead, of a head that makes the end depend on the start and judges apart whether
// there is an answer, as the search of ALBERT's own code for SQuAD 2.0. Candidates are then the beam's spans within the
// context with start ≤ end < start + max_answer_length, their scores log P(start) + log P(end | start), and
//   null_odds = the smallest no_answer logit of all excerpts
// No-answer's score is that much above the best candidate's (alone: above 0), so that it stands before all others
// exactly where null_odds > 0; its start_logit is that score, its end_logit 0.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/option_table.h"
#include "data/answer_beam.h"
#include "data/squad_excerpts.h"

namespace lshformer {

// How questions are answered: the excerpts of a long context, and the search in them.
struct AnswerOptions {
  int n_best_size = 20;
  int max_answer_length = 30;  // tokens
  bool version_2 = false;      // none is an answer too
  double null_score_diff_threshold = 0;
  std::string threshold_from = {};            // an eval_results.json: its "eval_best_f1_thresh" instead
  int doc_stride = -1, max_query_length = 0;  // as in ExcerptOptions

  ExcerptOptions Excerpts(int max_seq_length) const { return {max_seq_length, doc_stride, max_query_length}; }
};
// One row an option, for flags, help, checks (ValidateOptions) and the settings of a run.
const OptionTable<AnswerOptions>& AnswerTable();
// With the threshold that `threshold_from` names, and without that name. Error where the file has none.
AnswerOptions WithThreshold(AnswerOptions options);

struct AnswerCandidate {
  int32_t begin = 0, end = 0;  // code points of the context; {0, 0}: no answer
  float start_logit = 0, end_logit = 0;
  float score() const { return start_logit + end_logit; }
  bool none() const { return end == 0; }
};

struct FoundAnswer {
  AnswerCandidate answer;             // the one given
  double null_odds = 0;               // with version_2
  std::vector<AnswerCandidate> best;  // best first; with version_2 no-answer is among them or last. Never empty: where
                                      // no pair is a candidate no-answer stands alone (HF writes the text "empty")
  std::vector<double> probabilities;  // softmax over the scores of `best`
};

// One question's search; memory: n_best_size candidates.
class AnswerSearch {
 public:
  explicit AnswerSearch(const AnswerOptions& options) : options_(options) {}
  // Logits of one excerpt's sequence, [tokens] each, finite; `places` are those of the whole context.
  void AddExcerpt(std::span<const float> start_logits, std::span<const float> end_logits, const SquadExcerpt& excerpt,
                  const TokenPlaces& places);
  // The same of a beam, finite. All excerpts of a question come in the same way.
  void AddExcerpt(const AnswerBeam& beam, const SquadExcerpt& excerpt, const TokenPlaces& places);
  FoundAnswer Finish() const;

 private:
  // A span of the sequence, if it may be an answer and is among the best.
  void Offer(const AnswerBeam::Span& span, const SquadExcerpt& excerpt, const TokenPlaces& places);

  AnswerOptions options_;
  std::vector<AnswerCandidate> best_;  // sorted, best first
  std::optional<AnswerCandidate> null_;
  std::optional<float> no_answer_;  // of beams
};

// The same span found in several excerpts, or with other tokens, once: its best. Probabilities are those of what is
// left.
FoundAnswer WithoutRepetitions(FoundAnswer found);

}  // namespace lshformer
