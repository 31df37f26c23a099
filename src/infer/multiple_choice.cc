// Questions with options: each option is a sequence of its own, and its place in a forward call is free.
#include "data/multiple_choice.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/squad_excerpts.h"
#include "infer/pipeline.h"

namespace lshformer {

Outcome<ChooseQuery> Pipeline::PrepareChoose(const ChoiceInput& input) const {
  RequireTask(PredictTask::kMultipleChoice);
  Outcome<ChooseQuery> outcome;
  try {
    if (input.options.size() < kFewestOptions || input.options.size() > kMostOptions)
      Fail("\"options\": expected {} to {}, got {}", kFewestOptions, kMostOptions, input.options.size());
    const auto encode = [&](const std::string& text, const std::string& name) {
      if (!IsValidUtf8(text)) Fail("{}: expected UTF-8", name);
      return EncodeBare(*tokenizer_, text).ids;
    };
    if (input.context.size() > kLongestContext)
      Fail("\"context\" has {} bytes, expected at most {}", input.context.size(), kLongestContext);
    const std::vector<int32_t> context = encode(input.context, "\"context\"");
    if (context.empty()) Fail("\"context\" has no tokens: it is blank");
    for (size_t o = 0; o < input.options.size(); ++o) {
      const std::string name = fmt::format("\"question\" with \"options\"[{}]", o);
      const std::vector<int32_t> asked = encode(WithOption(input.question, input.options[o]), name);
      if (asked.empty()) Fail("{} has no tokens: they are blank", name);
      outcome.value.options.push_back(MakeChoice(context, asked, options_.max_seq_length, *tokenizer_));
      RequireTypes(outcome.value.options.back().type_ids, "question");
      outcome.truncated |= outcome.value.options.back().truncated;
    }
    if (outcome.truncated && options_.long_text == LongText::kWhole)
      Fail("\"context\" and an option have more than {} tokens ({} whole)", options_.max_seq_length,
           OptionName{"long_text"});
  } catch (const Error& error) {
    outcome = {};
    outcome.error = error.what();
  }
  return outcome;
}

std::vector<Outcome<std::vector<OptionScore>>> Pipeline::Run(std::span<const ChooseQuery> queries) const {
  RequireTask(PredictTask::kMultipleChoice);
  std::vector<Sequence> sequences;
  for (const ChooseQuery& query : queries)
    for (const Encoding& option : query.options) sequences.push_back({&option, {}, 1});
  std::vector<float> logits(sequences.size());
  ForEachOutput(sequences, [&](size_t number, std::span<const float> row) { logits[number] = row[0]; });
  std::vector<Outcome<std::vector<OptionScore>>> outcomes(queries.size());
  size_t first = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    const std::span<const float> own(logits.data() + first, queries[q].options.size());
    first += own.size();
    if (!std::all_of(own.begin(), own.end(), [](float logit) { return std::isfinite(logit); })) {
      outcomes[q].error = "the model's output for this question is not finite";
      continue;
    }
    std::vector<float> scores(own.size());
    SoftmaxRow(own, scores);
    for (const auto& [option, score] : BestOf(scores, static_cast<int>(scores.size())))
      outcomes[q].value.push_back({option, score});
    for (const Encoding& option : queries[q].options) outcomes[q].truncated |= option.truncated;
  }
  return outcomes;
}

}  // namespace lshformer
