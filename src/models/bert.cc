#include "models/bert.h"

#include <algorithm>

#include "base/error.h"
#include "data/masking.h"
#include "ops/cross_entropy.h"
#include "ops/span_cross_entropy.h"

namespace lshformer {
namespace {

bool HasPooler(Task task) { return task != Task::kMaskedLm && task != Task::kQuestionAnswering; }
bool HasMaskedLm(Task task) { return task == Task::kMaskedLm || task == Task::kPretraining; }

// Rows of a matrix, in the given order; gradients are added back.
torch::Tensor GatherRows(const torch::Tensor& x, const std::vector<int64_t>& rows) {
  return x.index_select(0, torch::tensor(rows, torch::kInt64));
}

// Mean cross-entropy of [B, classes] by the batch's class labels.
torch::Tensor ClassLoss(const torch::Tensor& logits, const PackedBatch& batch) {
  const int64_t classes = logits.size(1);
  if (batch.class_labels.size() != static_cast<size_t>(batch.sequences()))
    Fail("{} labels for {} sequences", batch.class_labels.size(), batch.sequences());
  for (size_t i = 0; i < batch.class_labels.size(); ++i)
    if (batch.class_labels[i] < 0 || batch.class_labels[i] >= classes)
      Fail("sequence {}: label {} is out of range, expected 0 to {}", i, batch.class_labels[i], classes - 1);
  const std::vector<int64_t> labels(batch.class_labels.begin(), batch.class_labels.end());
  return torch::cross_entropy_loss(logits, torch::tensor(labels, torch::kInt64));
}

std::vector<ParameterSpec> CheckedParameters(const ModelConfig& config, Task task) {
  ValidateModelConfig(config, "config.json");
  return BertParameters(config, task);
}

}  // namespace

std::vector<ParameterSpec> BertParameters(const ModelConfig& config, Task task) {
  const int64_t hidden = config.hidden_size;
  const std::string square = fmt::format("hidden_size {}", hidden);
  std::vector<ParameterSpec> specs;
  BertEmbeddings::AppendSpecs(specs, "bert.embeddings", config);
  const auto append_layer = config.reversible ? ReversibleBertLayer::AppendSpecs : BertLayer::AppendSpecs;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    append_layer(specs, fmt::format("bert.encoder.layer.{}", layer), fmt::format("encoder.layer.{}", layer), config);
  if (config.reversible) AppendLayerNorm(specs, "bert.encoder.LayerNorm", hidden, "encoder.LayerNorm");
  if (HasPooler(task)) AppendLinear(specs, "bert.pooler.dense", hidden, hidden, "pooler", square);
  if (HasMaskedLm(task)) {
    specs.push_back({"cls.predictions.bias",
                     {config.vocab_size},
                     Initial::kZero,
                     "head",
                     fmt::format("vocab_size {}", config.vocab_size)});
    AppendLinear(specs, "cls.predictions.transform.dense", hidden, hidden, "head", square);
    AppendLayerNorm(specs, "cls.predictions.transform.LayerNorm", hidden, "head");
  }
  if (task == Task::kPretraining)
    AppendLinear(specs, "cls.seq_relationship", /*out=*/2, hidden, "head", fmt::format("next or not, {}", square));
  if (task == Task::kSequenceClassification)
    AppendLinear(specs, "classifier", config.num_labels, hidden, "head",
                 fmt::format("{} labels, hidden_size {}", config.num_labels, hidden));
  if (task == Task::kQuestionAnswering)
    AppendLinear(specs, "qa_outputs", /*out=*/2, hidden, "head", fmt::format("start and end, hidden_size {}", hidden));
  return specs;
}

BertModel::BertModel(ModelConfig config, Task task, const ParameterMap& parameters)
    : Model(std::move(config), task), embeddings_(parameters, "bert.embeddings", config_) {
  for (const ParameterSpec& spec : CheckedParameters(config_, task))
    named_.emplace_back(spec.name, GetParameter(parameters, spec.name));
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("bert.encoder.layer.{}", layer);
    if (config_.reversible)
      reversible_layers_.emplace_back(parameters, prefix, config_, layer);
    else
      layers_.emplace_back(parameters, prefix, config_, layer);
  }
  if (config_.reversible) encoder_norm_.emplace(parameters, "bert.encoder.LayerNorm", config_.layer_norm_eps);
  if (HasPooler(task)) pooler_ = MakeLinear(parameters, "bert.pooler.dense");
  if (HasMaskedLm(task)) {
    transform_ = MakeLinear(parameters, "cls.predictions.transform.dense");
    transform_norm_.emplace(parameters, "cls.predictions.transform.LayerNorm", config_.layer_norm_eps);
    decoder_bias_ = GetParameter(parameters, "cls.predictions.bias");
    decoder_ = Linear({embeddings_.words()}, {decoder_bias_});
  }
  if (task == Task::kPretraining) seq_relationship_ = MakeLinear(parameters, "cls.seq_relationship");
  if (task == Task::kSequenceClassification) classifier_ = MakeLinear(parameters, "classifier");
  if (task == Task::kQuestionAnswering) qa_outputs_ = MakeLinear(parameters, "qa_outputs");
}

void BertModel::CheckBatch(const PackedBatch& batch) const {
  const auto tokens = static_cast<size_t>(batch.tokens());
  if (batch.sequences() == 0) Fail("the batch has no sequence");
  if (batch.ids.size() != tokens || batch.type_ids.size() != tokens || batch.positions.size() != tokens)
    Fail("the batch has {} ids, {} types and {} positions, but cu_seqlens ends at {}", batch.ids.size(),
         batch.type_ids.size(), batch.positions.size(), tokens);
  for (int sequence = 0; sequence < batch.sequences(); ++sequence) {
    const int32_t begin = batch.cu_seqlens[sequence], end = batch.cu_seqlens[sequence + 1];
    if (end <= begin) Fail("sequence {} is empty", sequence);
    if (end - begin > config_.max_position_embeddings)
      Fail("sequence {} has {} tokens, max_position_embeddings is {}", sequence, end - begin,
           config_.max_position_embeddings);
    const auto check = [&](const std::vector<int32_t>& values, const char* what, int64_t limit) {
      for (int32_t token = begin; token < end; ++token)
        if (values[token] < 0 || values[token] >= limit)
          Fail("sequence {}, token {}: {} {} is out of range, expected 0 to {}", sequence, token - begin, what,
               values[token], limit - 1);
    };
    check(batch.ids, "id", config_.vocab_size);
    check(batch.type_ids, "token type", config_.type_vocab_size);
    check(batch.positions, "position", config_.max_position_embeddings);
  }
}

torch::Tensor BertModel::Encode(const Pass& pass, ModelOutput& output, bool record) const {
  torch::Tensor hidden = embeddings_(pass);  // [T, H]
  if (record) output.hidden_states.push_back(hidden);
  if (config_.reversible) return EncodeReversibly(hidden, pass, output, record);
  const Pass replay = ReplayPass(pass);
  for (const BertLayer& layer : layers_) {
    hidden = layer(hidden, pass, replay);  // [T, H]
    if (record) output.hidden_states.push_back(hidden);
  }
  return hidden;
}

torch::Tensor BertModel::EncodeReversibly(const torch::Tensor& embeddings, const Pass& pass, ModelOutput& output,
                                          bool record) const {
  const Pass replay = ReplayPass(pass);
  std::vector<ReversibleLayer> layers;
  for (const ReversibleBertLayer& layer : reversible_layers_) layers.push_back(layer(pass, replay));
  const auto visit = [&](const torch::Tensor& mean) { output.hidden_states.push_back(mean); };
  const torch::Tensor mean = record ? RunReversible(embeddings, layers, visit) : RunReversible(embeddings, layers);
  return (*encoder_norm_)(mean, {}, {});
}

torch::Tensor BertModel::Pool(const PackedBatch& batch, const torch::Tensor& hidden) const {
  const std::vector<int64_t> first(batch.cu_seqlens.begin(), batch.cu_seqlens.end() - 1);
  return Apply(UnaryFunction::kTanh, (*pooler_)(GatherRows(hidden, first)));
}

torch::Tensor BertModel::Transform(const torch::Tensor& hidden) const {
  return (*transform_norm_)(transform_->Then(Function(config_.hidden_act), hidden, DecoderPrecision()), {}, {});
}

void BertModel::RunMaskedLm(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const {
  std::vector<int64_t> labelled;
  std::vector<int32_t> labels;
  for (size_t token = 0; token < batch.token_labels.size(); ++token) {
    const int32_t label = batch.token_labels[token];
    if (label == kIgnoredLabel) continue;
    if (label < 0 || label >= config_.vocab_size)
      Fail("token {}: label {} is out of range, expected -100 or 0 to {}", token, label, config_.vocab_size - 1);
    labelled.push_back(static_cast<int64_t>(token));
    labels.push_back(label);
  }
  if (!batch.token_labels.empty() && batch.token_labels.size() != batch.ids.size())
    Fail("the batch has {} tokens and {} token labels", batch.ids.size(), batch.token_labels.size());
  const bool has_labels = !batch.token_labels.empty(), gradients = torch::GradMode::is_enabled();
  if (has_labels && !options.all_logits) {
    const torch::Tensor rows = Transform(GatherRows(output.last_hidden_state, labelled));  // [labelled, H]
    if (gradients)
      output.loss = DecoderCrossEntropy(rows, embeddings_.words(), decoder_bias_, labels, DecoderPrecision());
    if (gradients && options.train) return;
    const torch::NoGradGuard no_grad;
    output.logits = (*decoder_)(rows, DecoderPrecision());  // [labelled, V]
    if (!gradients) output.loss = torch::full({}, CrossEntropyLoss(output.logits, labels));
    return;
  }
  const torch::Tensor rows = Transform(output.last_hidden_state);  // [T, H]
  if (has_labels && gradients)
    output.loss =
        DecoderCrossEntropy(GatherRows(rows, labelled), embeddings_.words(), decoder_bias_, labels, DecoderPrecision());
  // Where a loss carries the gradient, logits of every position are only looked at.
  const torch::AutoGradMode grad_mode(gradients && !has_labels);
  output.logits = (*decoder_)(rows, DecoderPrecision());  // [T, V]
  if (has_labels && !gradients) output.loss = torch::full({}, CrossEntropyLoss(output.logits, batch.token_labels));
}

void BertModel::RunPretraining(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const {
  const bool masked = std::any_of(batch.token_labels.begin(), batch.token_labels.end(),
                                  [](int32_t label) { return label != kIgnoredLabel; });
  // A mean over no token would be NaN, and take the other term with it.
  if (masked || !options.train) RunMaskedLm(batch, options, output);
  if (masked) output.token_loss = output.loss;
  output.loss = output.token_loss;
  output.seq_relationship_logits = (*seq_relationship_)(output.pooler_output);  // [B, 2]
  if (batch.class_labels.empty()) return;
  output.sequence_loss = ClassLoss(output.seq_relationship_logits, batch);
  output.loss = output.loss.defined() ? output.loss + output.sequence_loss : output.sequence_loss;
}

void BertModel::RunClassification(const Pass& pass, ModelOutput& output) const {
  const PackedBatch& batch = *pass.batch;
  auto firsts = std::make_shared<RowIdentities>();
  for (int sequence = 0; sequence < batch.sequences(); ++sequence) {
    firsts->sequence_ids.push_back(pass.tokens->sequence_ids[batch.cu_seqlens[sequence]]);
    firsts->positions.push_back(0);
  }
  const double probability = config_.classifier_dropout < 0 ? config_.hidden_dropout_prob : config_.classifier_dropout;
  const torch::Tensor pooled =
      Dropout(output.pooler_output, PassDropout(pass, probability, 0, DropoutSite::kHead, std::move(firsts)));
  output.logits = (*classifier_)(pooled);  // [B, labels]
  const auto sequences = static_cast<size_t>(batch.sequences());
  if (!batch.float_labels.empty()) {
    if (batch.float_labels.size() != sequences || config_.num_labels != 1)
      Fail("{} regression labels for {} sequences and {} outputs", batch.float_labels.size(), sequences,
           config_.num_labels);
    output.loss = torch::mse_loss(output.logits.squeeze(1), torch::tensor(batch.float_labels));
  } else if (!batch.class_labels.empty()) {
    output.loss = ClassLoss(output.logits, batch);
  }
}

void BertModel::RunQuestionAnswering(const PackedBatch& batch, ModelOutput& output) const {
  const torch::Tensor logits = (*qa_outputs_)(output.last_hidden_state);  // [T, 2]
  output.start_logits = logits.select(1, 0);                              // [T]
  output.end_logits = logits.select(1, 1);                                // [T]
  if (batch.start_positions.empty() && batch.end_positions.empty()) return;
  output.loss = SpanCrossEntropy(logits, batch.cu_seqlens, batch.start_positions, batch.end_positions);
}

ModelOutput BertModel::Forward(const PackedBatch& batch, const ForwardOptions& options) {
  CheckBatch(batch);
  Pass pass = MakePass(batch);
  pass.train = options.train;
  pass.seed = options.seed;
  pass.step = static_cast<uint64_t>(options.step);
  pass.dropout_step = pass.step | static_cast<uint64_t>(options.micro_step) << 40;
  pass.recompute_layers = options.gradient_checkpointing;
  pass.counts = options.counts;
  pass.precision = precision_;
  ModelOutput output;
  if (options.attentions) pass.attentions = &output.attentions;
  output.last_hidden_state = Encode(pass, output, options.hidden_states);     // [T, H]
  if (pooler_) output.pooler_output = Pool(batch, output.last_hidden_state);  // [B, H]
  if (task_ == Task::kMaskedLm) RunMaskedLm(batch, options, output);
  if (task_ == Task::kPretraining) RunPretraining(batch, options, output);
  if (task_ == Task::kSequenceClassification) RunClassification(pass, output);
  if (task_ == Task::kQuestionAnswering) RunQuestionAnswering(batch, output);
  return output;
}

}  // namespace lshformer
