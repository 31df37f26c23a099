#include "models/heads.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "data/masking.h"
#include "ops/cross_entropy.h"
#include "ops/span_cross_entropy.h"

namespace lshformer {
namespace {

bool HasMaskedLm(Task task) { return task == Task::kMaskedLm || task == Task::kPretraining; }

// int8's error would reorder the words at the top, and the decoder sees few rows.
Precision DecoderPrecision(Precision precision) {
  return precision == Precision::kInt8 ? Precision::kFloat32 : precision;
}

// Rows of a matrix, in the given order; gradients are added back.
torch::Tensor GatherRows(const torch::Tensor& x, const std::vector<int64_t>& rows) {
  return x.index_select(0, torch::tensor(rows, torch::kInt64));
}

std::vector<int64_t> FirstTokens(const PackedBatch& batch) {
  return {batch.tokens.cu_seqlens.begin(), batch.tokens.cu_seqlens.end() - 1};
}

std::vector<int64_t> LabelledTokens(const PackedBatch& batch) {
  std::vector<int64_t> labelled;
  for (size_t token = 0; token < batch.labels.tokens.size(); ++token)
    if (batch.labels.tokens[token] != kIgnoredLabel) labelled.push_back(static_cast<int64_t>(token));
  return labelled;
}

torch::Tensor DropPooled(const torch::Tensor& pooled, const ForwardContext& context, double probability) {
  return Dropout(pooled, context.DropoutPerSequence(DropoutSite::kHead, 0, probability));
}

// Mean cross-entropy of [B, classes] by the batch's class labels.
torch::Tensor ClassLoss(const torch::Tensor& logits, const PackedBatch& batch) {
  const int64_t classes = logits.size(1);
  if (batch.labels.classes.size() != static_cast<size_t>(batch.sequences()))
    Fail("{} labels for {} sequences", batch.labels.classes.size(), batch.sequences());
  for (size_t i = 0; i < batch.labels.classes.size(); ++i)
    if (batch.labels.classes[i] < 0 || batch.labels.classes[i] >= classes)
      Fail("sequence {}: label {} is out of range, expected 0 to {}", i, batch.labels.classes[i], classes - 1);
  const std::vector<int64_t> labels(batch.labels.classes.begin(), batch.labels.classes.end());
  return torch::cross_entropy_loss(logits, torch::tensor(labels, torch::kInt64));
}

// Mean binary cross-entropy of [B, labels] by the batch's flags.
torch::Tensor FlagLoss(const torch::Tensor& logits, const PackedBatch& batch) {
  if (static_cast<int64_t>(batch.labels.flags.size()) != logits.numel())
    Fail("{} labels of yes or no for {} sequences and {} outputs", batch.labels.flags.size(), batch.sequences(),
         logits.size(1));
  const torch::Tensor flags = torch::tensor(batch.labels.flags).view(logits.sizes());  // [B, labels]
  return torch::binary_cross_entropy_with_logits(logits, flags);
}

// Mean over the examples of the cross-entropy of their options' scores [B]. Examples may have different numbers of
// them.
torch::Tensor ChoiceLoss(const torch::Tensor& scores, const Labels& labels) {
  const std::vector<int32_t>& borders = labels.cu_choices;
  if (borders.size() != labels.classes.size() + 1 || borders.front() != 0 || borders.back() != scores.size(0))
    Fail("{} labels for {} borders of examples, of {} options", labels.classes.size(), borders.size(), scores.size(0));
  std::vector<torch::Tensor> losses;
  for (size_t e = 0; e < labels.classes.size(); ++e) {
    const int32_t options = borders[e + 1] - borders[e];
    if (labels.classes[e] < 0 || labels.classes[e] >= options)
      Fail("example {}: label {} is out of range, it has {} options", e, labels.classes[e], options);
    const torch::Tensor row = scores.slice(0, borders[e], borders[e + 1]).unsqueeze(0);  // [1, options]
    losses.push_back(torch::cross_entropy_loss(row, torch::tensor({int64_t{labels.classes[e]}}, torch::kInt64)));
  }
  return torch::stack(losses).mean();
}

}  // namespace

void EncoderHeads::AppendSpecs(std::vector<ParameterSpec>& specs, const HeadNames& names, const ModelConfig& config,
                               Task task) {
  const int64_t hidden = config.hidden_size, width = config.embedding_width();
  const std::string sizes = fmt::format("hidden_size {}", hidden);
  if (HasPooler(task)) AppendLinear(specs, names.pooler, hidden, hidden, "pooler", sizes);
  if (HasMaskedLm(task)) {
    specs.push_back({names.decoder_bias,
                     {config.vocab_size},
                     Initial::kZero,
                     "head",
                     fmt::format("vocab_size {}", config.vocab_size),
                     {.decays = false}});
    const char* key = config.embedding_size == 0 ? "hidden_size" : "embedding_size";
    AppendLinear(specs, names.transform, width, hidden, "head",
                 config.embedding_size == 0 ? sizes : fmt::format("embedding_size {}, {}", width, sizes));
    AppendLayerNorm(specs, names.transform_norm, width, "head", key);
  }
  if (task == Task::kPretraining)
    AppendLinear(specs, names.sentence_pairs, /*out=*/2, hidden, "head", fmt::format("kinds of pairs, {}", sizes));
  if (task == Task::kSequenceClassification)
    AppendLinear(specs, names.classifier, config.num_labels, hidden, "head",
                 fmt::format("{} labels, {}", config.num_labels, sizes));
  if (task == Task::kMultipleChoice)
    AppendLinear(specs, names.classifier, /*out=*/1, hidden, "head", fmt::format("one score an option, {}", sizes));
  if (task != Task::kQuestionAnswering) return;
  if (names.conditional_answers) return ConditionalAnswers::AppendSpecs(specs, config);
  AppendLinear(specs, names.answers, /*out=*/2, hidden, "head", fmt::format("start and end, {}", sizes));
}

EncoderHeads::EncoderHeads(const ParameterMap& parameters, const HeadNames& names, const ModelConfig& config, Task task,
                           const HeadDropout& dropout, const torch::Tensor& words)
    : task_(task),
      vocab_size_(config.vocab_size),
      num_labels_(config.num_labels),
      function_(Function(config.hidden_act)),
      dropout_(dropout) {
  if (HasPooler(task)) pooler_ = parameters.LinearOf(names.pooler);
  if (HasMaskedLm(task)) {
    transform_ = parameters.LinearOf(names.transform);
    transform_norm_.emplace(parameters, names.transform_norm, config.layer_norm_eps);
    words_ = words;
    decoder_bias_ = parameters.Get(names.decoder_bias);
    decoder_ = Linear({words_}, {decoder_bias_});
  }
  if (task == Task::kPretraining) sentence_pairs_ = parameters.LinearOf(names.sentence_pairs);
  if (task == Task::kSequenceClassification || task == Task::kMultipleChoice)
    classifier_ = parameters.LinearOf(names.classifier);
  if (task != Task::kQuestionAnswering) return;
  if (names.conditional_answers)
    conditional_answers_.emplace(parameters, config, dropout.classifier);
  else
    answers_ = parameters.LinearOf(names.answers);
}

torch::Tensor LastStates::Of(const std::vector<int64_t>& wanted) const {
  if (tokens.empty()) return GatherRows(states, wanted);
  if (tokens == wanted) return states;
  std::vector<int64_t> rows;
  for (const int64_t token : wanted) {
    const auto found = std::lower_bound(tokens.begin(), tokens.end(), token);
    if (found == tokens.end() || *found != token) Fail("the last state of token {} was not computed", token);
    rows.push_back(found - tokens.begin());
  }
  return GatherRows(states, rows);
}

std::vector<int64_t> EncoderHeads::TokensRead(const PackedBatch& batch, const ForwardOptions& options) const {
  if (!options.head_only || options.hidden_states || task_ == Task::kQuestionAnswering) return {};
  if (!HasMaskedLm(task_)) return FirstTokens(batch);
  if (batch.labels.tokens.empty() || options.all_logits) return {};
  const std::vector<int64_t> labelled = LabelledTokens(batch);
  if (task_ == Task::kMaskedLm) return labelled;
  std::vector<int64_t> both;
  std::ranges::set_union(labelled, FirstTokens(batch), std::back_inserter(both));
  return both;
}

torch::Tensor EncoderHeads::Transform(const torch::Tensor& hidden, Precision precision) const {
  return (*transform_norm_)(transform_->Then(function_, hidden, precision), {}, {});
}

void EncoderHeads::RunMaskedLm(const PackedBatch& batch, const ForwardOptions& options, Precision precision,
                               const LastStates& last, ModelOutput& output) const {
  const std::vector<int64_t> labelled = LabelledTokens(batch);
  std::vector<int32_t> labels;
  for (const int64_t token : labelled) {
    const int32_t label = batch.labels.tokens[static_cast<size_t>(token)];
    if (label < 0 || label >= vocab_size_)
      Fail("token {}: label {} is out of range, expected -100 or 0 to {}", token, label, vocab_size_ - 1);
    labels.push_back(label);
  }
  if (!batch.labels.tokens.empty() && batch.labels.tokens.size() != batch.tokens.ids.size())
    Fail("the batch has {} tokens and {} token labels", batch.tokens.ids.size(), batch.labels.tokens.size());
  const bool has_labels = !batch.labels.tokens.empty(), gradients = torch::GradMode::is_enabled();
  if (has_labels && !options.all_logits) {
    const torch::Tensor rows = Transform(last.Of(labelled), precision);  // [labelled, width]
    if (gradients) output.loss = DecoderCrossEntropy(rows, words_, decoder_bias_, labels, precision);
    if (gradients && options.train) return;
    const torch::NoGradGuard no_grad;
    output.logits = (*decoder_)(rows, precision);  // [labelled, V]
    if (!gradients) output.loss = torch::full({}, CrossEntropyLoss(output.logits, labels));
    return;
  }
  const torch::Tensor rows = Transform(last.states, precision);  // [T, width]
  if (has_labels && gradients)
    output.loss = DecoderCrossEntropy(GatherRows(rows, labelled), words_, decoder_bias_, labels, precision);
  // Where a loss carries the gradient, logits of every position are only looked at.
  const torch::AutoGradMode grad_mode(gradients && !has_labels);
  output.logits = (*decoder_)(rows, precision);  // [T, V]
  if (has_labels && !gradients) output.loss = torch::full({}, CrossEntropyLoss(output.logits, batch.labels.tokens));
}

void EncoderHeads::RunPretraining(const PackedBatch& batch, const ForwardOptions& options,
                                  const ForwardContext& context, const LastStates& last, ModelOutput& output) const {
  const std::vector<int64_t> items = LossItems(task_, batch.labels);
  // A mean over no token would be NaN, and take the other term with it.
  if (items[0] > 0 || !options.train) RunMaskedLm(batch, options, DecoderPrecision(context.precision), last, output);
  torch::Tensor token_loss, sequence_loss;
  if (items[0] > 0) token_loss = output.loss;
  output.loss = token_loss;
  output.sentence_pair_logits =
      (*sentence_pairs_)(DropPooled(output.pooler_output, context, dropout_.sentence_pairs));  // [B, 2]
  if (items[1] > 0) {
    sequence_loss = ClassLoss(output.sentence_pair_logits, batch);
    output.loss = output.loss.defined() ? output.loss + sequence_loss : sequence_loss;
  }
  output.terms = {{token_loss, items[0]}, {sequence_loss, items[1]}};
}

void EncoderHeads::RunClassification(const PackedBatch& batch, const ForwardContext& context,
                                     ModelOutput& output) const {
  const torch::Tensor pooled = DropPooled(output.pooler_output, context, dropout_.classifier);
  output.logits = (*classifier_)(pooled);  // [B, labels]
  const auto sequences = static_cast<size_t>(batch.sequences());
  if (!batch.labels.values.empty()) {
    if (batch.labels.values.size() != sequences || num_labels_ != 1)
      Fail("{} regression labels for {} sequences and {} outputs", batch.labels.values.size(), sequences, num_labels_);
    output.loss = torch::mse_loss(output.logits.squeeze(1), torch::tensor(batch.labels.values));
  } else if (!batch.labels.flags.empty()) {
    output.loss = FlagLoss(output.logits, batch);
  } else if (!batch.labels.classes.empty()) {
    output.loss = ClassLoss(output.logits, batch);
  }
}

void EncoderHeads::RunChoices(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const {
  output.logits = (*classifier_)(DropPooled(output.pooler_output, context, dropout_.classifier)).squeeze(1);  // [B]
  if (!batch.labels.classes.empty()) output.loss = ChoiceLoss(output.logits, batch.labels);
}

void EncoderHeads::RunAnswers(const PackedBatch& batch, ModelOutput& output) const {
  const torch::Tensor logits = (*answers_)(output.last_hidden_state);  // [T, 2]
  output.start_logits = logits.select(1, 0);                           // [T]
  output.end_logits = logits.select(1, 1);                             // [T]
  if (batch.labels.start_positions.empty() && batch.labels.end_positions.empty()) return;
  output.loss =
      SpanCrossEntropy(logits, batch.tokens.cu_seqlens, batch.labels.start_positions, batch.labels.end_positions);
}

void EncoderHeads::operator()(const Encoder& encoder, const torch::Tensor& embeddings, const PackedBatch& batch,
                              const ForwardOptions& options, const ForwardContext& context, ModelOutput& output) const {
  if (options.hidden_states) output.hidden_states.push_back(embeddings);
  LastStates last{.states = {}, .tokens = TokensRead(batch, options)};
  const torch::Tensor rows = last.tokens.empty() ? torch::Tensor() : torch::tensor(last.tokens, torch::kInt64);
  last.states = encoder(embeddings, context, options.hidden_states ? &output.hidden_states : nullptr, rows);
  output.last_hidden_state = last.states;
  RunHead(batch, options, context, last, output);
}

void EncoderHeads::RunHead(const PackedBatch& batch, const ForwardOptions& options, const ForwardContext& context,
                           const LastStates& last, ModelOutput& output) const {
  if (pooler_) output.pooler_output = Apply(UnaryFunction::kTanh, (*pooler_)(last.Of(FirstTokens(batch))));  // [B, H]
  if (task_ == Task::kPretraining) return RunPretraining(batch, options, context, last, output);
  if (task_ == Task::kMaskedLm) RunMaskedLm(batch, options, DecoderPrecision(context.precision), last, output);
  if (task_ == Task::kSequenceClassification) RunClassification(batch, context, output);
  if (task_ == Task::kMultipleChoice) RunChoices(batch, context, output);
  if (answers_) RunAnswers(batch, output);
  if (conditional_answers_) (*conditional_answers_)(batch, context, output);
  if (output.loss.defined()) output.terms = {{output.loss, LossItems(task_, batch.labels).front()}};
}

void CheckTokens(const PackedBatch& batch, const ModelConfig& config) {
  CheckStreams(batch, FamilyOf(config));
  const TokenStream& stream = batch.tokens;
  for (int sequence = 0; sequence < batch.sequences(); ++sequence) {
    const int32_t begin = stream.cu_seqlens[sequence], end = stream.cu_seqlens[sequence + 1];
    if (end <= begin) Fail("sequence {} is empty", sequence);
    if (end - begin > config.max_position_embeddings)
      Fail("sequence {} has {} tokens, max_position_embeddings is {}", sequence, end - begin,
           config.max_position_embeddings);
    const auto check = [&](const std::vector<int32_t>& values, const char* what, int64_t limit) {
      for (int32_t token = begin; token < end; ++token)
        if (values[token] < 0 || values[token] >= limit)
          Fail("sequence {}, token {}: {} {} is out of range, expected 0 to {}", sequence, token - begin, what,
               values[token], limit - 1);
    };
    check(stream.ids, "id", config.vocab_size);
    check(stream.type_ids, "token type", config.type_vocab_size);
    check(stream.positions, "position", config.max_position_embeddings);
  }
}

ForwardContext MakeContext(const PackedBatch& batch, const ForwardOptions& options, Precision precision,
                           ModelOutput& output) {
  ForwardContext context(batch.tokens, batch.sequence_ids);
  context.train = options.train;
  context.seed = options.seed;
  context.step = static_cast<uint64_t>(options.step);
  context.dropout_step = context.step | static_cast<uint64_t>(options.micro_step) << 40;
  context.recompute_layers = options.gradient_checkpointing;
  context.counts = options.counts;
  context.attention_hook = options.attention_hook;
  context.precision = precision;
  if (options.attentions) context.attentions = &output.attentions;
  return context;
}

}  // namespace lshformer
