// What a question answering run leaves, in HF's layout: predictions.json {id: answer}, nbest_predictions.json
// {id: [{"text", "start_logit", "end_logit", "probability"}, …]} best first, and with version_2 null_odds.json
// {id: null score − best score}, which `evaluate --na_prob_file` takes. One question a line.
#pragma once
#include <string>
#include <vector>

#include "data/answer_search.h"
#include "data/squad.h"

namespace lshformer {

// found: [questions]. Atomic, into an existing folder; `prefix` ("" or "predict_") begins the names.
void WriteAnswerFiles(const SquadData& data, const std::vector<FoundAnswer>& found, bool version_2,
                      const std::string& folder, const std::string& prefix);

// The text of each question's answer, "" for none.
std::vector<std::string> AnswerTexts(const SquadData& data, const std::vector<FoundAnswer>& found);

}  // namespace lshformer
