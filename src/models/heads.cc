#include "models/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/span_answers.h"

namespace lshformer {
namespace {

bool HasMaskedLm(Task task) { return task == Task::kMaskedLm || task == Task::kPretraining; }

}  // namespace

void EncoderHeads::AppendSpecs(std::vector<ParameterSpec>& specs, const HeadForm& form, const ModelConfig& config,
                               Task task) {
  if (form.pooler) Pooler::AppendSpecs(specs, *form.pooler, config);
  if (HasMaskedLm(task)) MaskedLmHead::AppendSpecs(specs, form.masked_lm, config);
  if (task == Task::kPretraining)
    PooledMap::AppendSpecs(specs, form.sentence_pairs, /*outputs=*/2, "kinds of pairs", config);
  if (task == Task::kSequenceClassification)
    PooledMap::AppendSpecs(specs, form.classifier, config.num_labels, fmt::format("{} labels", config.num_labels),
                           config);
  if (task == Task::kMultipleChoice)
    PooledMap::AppendSpecs(specs, form.classifier, /*outputs=*/1, "one score an option", config);
  if (task != Task::kQuestionAnswering) return;
  if (form.conditional_answers) return ConditionalAnswers::AppendSpecs(specs, config);
  const std::string sizes = fmt::format("{} {}", FamilyOf(config).encoder_keys.hidden_size, config.hidden_size);
  if (form.answer_transform)
    HeadTransform::AppendSpecs(specs, *form.answer_transform,
                               {.out = config.hidden_size, .in = config.hidden_size, .reason = sizes}, "head");
  AppendLinear(specs, form.answers, /*out=*/2, config.hidden_size, "head", fmt::format("start and end, {}", sizes));
}

EncoderHeads::EncoderHeads(const ParameterMap& parameters, const HeadForm& form, const ModelConfig& config, Task task,
                           const torch::Tensor& words)
    : task_(task), shows_pooled_(form.pooler && form.pooler->block == "pooler"), answer_dropout_(form.answer_dropout) {
  const double eps = config.layer_norm_eps;
  if (form.pooler) pooler_.emplace(parameters, *form.pooler, eps);
  if (HasMaskedLm(task)) masked_lm_.emplace(parameters, form.masked_lm, config, words);
  if (task == Task::kPretraining) sentence_pairs_.emplace(parameters, form.sentence_pairs, form.sentence_pair_dropout);
  if (task == Task::kSequenceClassification || task == Task::kMultipleChoice)
    classifier_.emplace(parameters, form.classifier, form.classifier_dropout);
  if (task != Task::kQuestionAnswering) return;
  if (form.conditional_answers) {
    conditional_answers_.emplace(parameters, config, form.classifier_dropout);
    return;
  }
  if (form.answer_transform) answer_transform_.emplace(parameters, *form.answer_transform, eps);
  answers_ = parameters.LinearOf(form.answers);
}

std::vector<int64_t> EncoderHeads::TokensRead(const PackedBatch& batch, const ForwardOptions& options) const {
  if (!options.head_only || options.hidden_states || task_ == Task::kQuestionAnswering) return {};
  if (!masked_lm_) return pooler_ && !pooler_->reads_first() ? std::vector<int64_t>() : FirstTokens(batch);
  const std::vector<int64_t> masked = MaskedLmHead::TokensRead(batch, options);
  if (task_ == Task::kMaskedLm || batch.labels.tokens.empty() || options.all_logits) return masked;
  std::vector<int64_t> both;
  std::ranges::set_union(masked, FirstTokens(batch), std::back_inserter(both));
  return both;
}

void EncoderHeads::operator()(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                              const ForwardContext& context, ModelOutput& output) const {
  const torch::Tensor pooled = pooler_ ? (*pooler_)(last, batch, context) : torch::Tensor();  // [B, H]
  if (shows_pooled_) output.pooler_output = pooled;
  if (task_ == Task::kPretraining) return RunPretraining(last, batch, options, context, output);
  if (masked_lm_) (*masked_lm_)(last, batch, options, context.precision, output);
  if (classifier_) RunPooled(pooled, batch, context, output);
  if (answers_) FinishAnswers(batch, AnswerLogits(last.states, context), output);
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

torch::Tensor EncoderHeads::AnswerLogits(const torch::Tensor& states, const ForwardContext& context) const {
  const torch::Tensor transformed = answer_transform_ ? (*answer_transform_)(states) : states;  // [T, H]
  return (*answers_)(Dropout(transformed, context.DropoutAt(DropoutSite::kHead, 0, answer_dropout_, context.rows)));
}

void EncoderHeads::RunPooled(const torch::Tensor& pooled, const PackedBatch& batch, const ForwardContext& context,
                             ModelOutput& output) const {
  output.logits = (*classifier_)(pooled, context);  // [B, labels]
  if (task_ == Task::kSequenceClassification) {
    output.loss = LabelLoss(output.logits, batch);
    return;
  }
  output.logits = output.logits.squeeze(1);  // [B]
  if (!batch.labels.classes.empty()) output.loss = ChoiceLoss(output.logits, batch.labels);
}

}  // namespace lshformer
