// Texts to vectors: the encoder's states, pooled as the options or the folder's modules say.
#include <algorithm>

#include "infer/text_queries.h"

namespace lshformer {

bool Pipeline::IsPerToken(const EmbedOptions& options) const {
  return options.pooling.value_or(modules_ ? Pooling::kMean : Pooling::kNone) == Pooling::kNone;
}

std::string Pipeline::PromptOf(const EmbedOptions& options) const {
  if (options.prompt) return *options.prompt;
  return modules_ ? modules_->Prompt(options.prompt_name) : "";
}

int64_t Pipeline::EmbeddingWidth(const EmbedOptions& options) const {
  const int64_t hidden = config().hidden_size;
  return modules_ && !IsPerToken(options) ? modules_->Width(hidden, {options.pooling, options.normalize}) : hidden;
}

Outcome<EmbedQuery> Pipeline::PrepareEmbed(const TextInput& input, const EmbedOptions& options) const {
  RequireTask(PredictTask::kFeatureExtraction);
  return Prepared<EmbedQuery>([&](Outcome<EmbedQuery>& outcome) {
    if (options.prompt_name && !modules_) Fail("\"prompt_name\": the folder has no prompts");
    EmbeddingWidth(options);
    if (options_.long_text == LongText::kWindows && IsPerToken(options))
      Fail("\"pooling\": none gives a vector per token, of which {} windows makes none", OptionName{"long_text"});
    const std::string prompt = input.text.empty() ? "" : PromptOf(options);
    EmbedQuery& query = outcome.value;
    query.options = options;
    if (modules_ && !prompt.empty() && (!modules_->includes_prompt() || options_.long_text == LongText::kWindows))
      query.prompt_tokens = modules_->PromptTokens(*tokenizer_, prompt, options_.max_seq_length);
    TakeSequences(Encode({prompt + input.text, input.text_pair}, query.prompt_tokens), query);
    outcome.truncated = query.text.truncated;
    if (query.prompt_tokens >= std::ssize(query.text.ids))
      Fail("\"text\": its prompt leaves no room for it in {} tokens", options_.max_seq_length);
  });
}

std::vector<Outcome<Embedding>> Pipeline::Run(std::span<const EmbedQuery> queries) const {
  RequireTask(PredictTask::kFeatureExtraction);
  const int64_t hidden = config().hidden_size;
  const auto by_modules = [&](const EmbedQuery& query) { return modules_ && !IsPerToken(query.options); };
  const auto sequence = [&](const EmbedQuery& query, const Encoding& text) {
    const EmbedOptions& options = query.options;
    const bool first = by_modules(query) ? modules_->TakesFirstToken({options.pooling, options.normalize})
                                         : options.pooling == Pooling::kCls;
    return Sequence{&text, {}, std::ssize(text.ids), first};
  };
  const auto part = [&](const EmbedQuery& query, std::span<const float> states) {
    const EmbedOptions& options = query.options;
    if (by_modules(query))
      return modules_->Vector(states, hidden, query.prompt_tokens, {options.pooling, options.normalize});
    return PoolRows(states, hidden, options.pooling.value_or(Pooling::kNone), options.normalize.value_or(false));
  };
  return RunTexts(queries, sequence, part, [&](const EmbedQuery& query, std::vector<float> vector) {
    const EmbedOptions& options = query.options;
    const bool per_token = IsPerToken(options);
    const bool unit = by_modules(query) ? modules_->Normalizes({options.pooling, options.normalize})
                                        : options.normalize.value_or(false);
    if (!query.further.empty() && unit) NormalizeVector(vector);
    return Embedding{per_token ? hidden : std::ssize(vector), per_token, std::move(vector)};
  });
}

}  // namespace lshformer
