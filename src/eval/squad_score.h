// The metrics of the official SQuAD scripts, and AvNA.
//
// Of a question: exact = 1 if some gold answer has the same words in the same order (answer_text.h), f1 = the largest
// F1 over the bags of words. Totals are 100 · mean.
//   1.1   evaluate-v1.1.py: over all questions; one without a prediction counts 0; F1 is 0 where no word is common.
//   2.0   evaluate-v2.0.py: gold answers without words do not count; where none is left the gold answer is none. F1
//   with
//         a side without words: 1 if both are, else 0. Every question needs a prediction (the script stops without).
//         Where na_prob > na_prob_thresh the prediction is "no answer": 1 for questions without an answer, else 0.
// Keys: "exact", "f1", "total"; the same with "HasAns_" and "NoAns_" for questions with and without answers, where
// there are some; "AvNA" = 100 · share of questions where (the prediction in force is not empty) = (there is an
// answer). 1.1 also "exact_match", that script's name for "exact". With na_prob, 2.0: "best_exact",
// "best_exact_thresh", "best_f1", "best_f1_thresh": questions are answered in order of na_prob, equal ones in the order
// given; the first threshold of the best total, before na_prob_thresh is applied.
#pragma once
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/squad.h"

namespace lshformer {

struct SquadScoring {
  bool version_2 = false;
  double na_prob_thresh = 1;
};

using SquadPredictions = std::unordered_map<std::string, std::string>;      // id → answer
using NoAnswerProbabilities = std::vector<std::pair<std::string, double>>;  // id, in order of their file

// `predictions_name` and `na_prob_name` name the sources in errors. Empty `na_prob`: all 0, and no best thresholds.
// Ids that no question has are ignored and counted in a warning; with 1.1 also questions without a prediction.
// Error: 2.0 and a question without a prediction, or without a probability; 1.1 and a question without gold answers.
Json ScoreSquad(const std::vector<SquadReference>& references, const SquadPredictions& predictions,
                const std::string& predictions_name, const NoAnswerProbabilities& na_prob,
                const std::string& na_prob_name, const SquadScoring& scoring);

// The same from files, plain or gzip: {id: answer}, {id: number} (path "" for none).
Json ScoreSquadFiles(const std::string& predictions_path, const std::string& references_path,
                     const std::string& na_prob_path, const SquadScoring& scoring);

}  // namespace lshformer
