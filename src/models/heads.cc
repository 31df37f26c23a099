#include "models/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/span_answers.h"

namespace lshformer {
namespace {

bool HasMaskedLm(Task task) { return task == Task::kMaskedLm || task == Task::kPretraining; }

}  // namespace

void EncoderHeads::AppendSpecs(std::vector<ParameterSpec>& specs, const HeadNames& names, const ModelConfig& config,
                               Task task) {
  if (HasPooler(task)) Pooler::AppendSpecs(specs, names.pooler, config);
  if (HasMaskedLm(task)) MaskedLmHead::AppendSpecs(specs, names.masked_lm, config);
  if (task == Task::kPretraining)
    PooledMap::AppendSpecs(specs, names.sentence_pairs, /*outputs=*/2, "kinds of pairs", config);
  if (task == Task::kSequenceClassification)
    PooledMap::AppendSpecs(specs, names.classifier, config.num_labels, fmt::format("{} labels", config.num_labels),
                           config);
  if (task == Task::kMultipleChoice)
    PooledMap::AppendSpecs(specs, names.classifier, /*outputs=*/1, "one score an option", config);
  if (task != Task::kQuestionAnswering) return;
  if (names.conditional_answers) return ConditionalAnswers::AppendSpecs(specs, config);
  AppendLinear(specs, names.answers, /*out=*/2, config.hidden_size, "head",
               fmt::format("start and end, hidden_size {}", config.hidden_size));
}

EncoderHeads::EncoderHeads(const ParameterMap& parameters, const HeadNames& names, const ModelConfig& config, Task task,
                           const HeadDropout& dropout, const torch::Tensor& words)
    : task_(task) {
  if (HasPooler(task)) pooler_.emplace(parameters, names.pooler);
  if (HasMaskedLm(task)) masked_lm_.emplace(parameters, names.masked_lm, config, words);
  if (task == Task::kPretraining) sentence_pairs_.emplace(parameters, names.sentence_pairs, dropout.sentence_pairs);
  if (task == Task::kSequenceClassification || task == Task::kMultipleChoice)
    classifier_.emplace(parameters, names.classifier, dropout.classifier);
  if (task != Task::kQuestionAnswering) return;
  if (names.conditional_answers)
    conditional_answers_.emplace(parameters, config, dropout.classifier);
  else
    answers_ = parameters.LinearOf(names.answers);
}

std::vector<int64_t> EncoderHeads::TokensRead(const PackedBatch& batch, const ForwardOptions& options) const {
  if (!options.head_only || options.hidden_states || task_ == Task::kQuestionAnswering) return {};
  if (!masked_lm_) return FirstTokens(batch);
  const std::vector<int64_t> masked = MaskedLmHead::TokensRead(batch, options);
  if (task_ == Task::kMaskedLm || batch.labels.tokens.empty() || options.all_logits) return masked;
  std::vector<int64_t> both;
  std::ranges::set_union(masked, FirstTokens(batch), std::back_inserter(both));
  return both;
}

void EncoderHeads::operator()(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                              const ForwardContext& context, ModelOutput& output) const {
  if (pooler_) output.pooler_output = (*pooler_)(last, batch);
  if (task_ == Task::kPretraining) return RunPretraining(last, batch, options, context, output);
  if (masked_lm_) (*masked_lm_)(last, batch, options, context.precision, output);
  if (classifier_) RunPooled(batch, context, output);
  if (answers_) FinishAnswers(batch, (*answers_)(last.states), output);
  if (conditional_answers_) (*conditional_answers_)(batch, context, output);
  if (output.loss.defined()) output.terms = {output.loss};
}

void EncoderHeads::RunPretraining(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                                  const ForwardContext& context, ModelOutput& output) const {
  const bool masked = HasTokenLabel(batch);
  // A mean over no token would be NaN, and take the other term with it.
  if (masked || !options.train) (*masked_lm_)(last, batch, options, context.precision, output);
  torch::Tensor token_loss, sequence_loss;
  if (masked) token_loss = output.loss;
  output.loss = token_loss;
  output.sentence_pair_logits = (*sentence_pairs_)(output.pooler_output, context);  // [B, 2]
  if (!batch.labels.classes.empty()) {
    sequence_loss = ClassLoss(output.sentence_pair_logits, batch);
    output.loss = output.loss.defined() ? output.loss + sequence_loss : sequence_loss;
  }
  output.terms = {token_loss, sequence_loss};
}

void EncoderHeads::RunPooled(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const {
  output.logits = (*classifier_)(output.pooler_output, context);  // [B, labels]
  if (task_ == Task::kSequenceClassification) {
    output.loss = LabelLoss(output.logits, batch);
    return;
  }
  output.logits = output.logits.squeeze(1);  // [B]
  if (!batch.labels.classes.empty()) output.loss = ChoiceLoss(output.logits, batch.labels);
}

}  // namespace lshformer
