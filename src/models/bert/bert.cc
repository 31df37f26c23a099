#include "models/bert/bert.h"

#include <algorithm>

#include "base/error.h"
#include "data/masking.h"
#include "models/bert/config.h"
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
  if (batch.labels.classes.size() != static_cast<size_t>(batch.sequences()))
    Fail("{} labels for {} sequences", batch.labels.classes.size(), batch.sequences());
  for (size_t i = 0; i < batch.labels.classes.size(); ++i)
    if (batch.labels.classes[i] < 0 || batch.labels.classes[i] >= classes)
      Fail("sequence {}: label {} is out of range, expected 0 to {}", i, batch.labels.classes[i], classes - 1);
  const std::vector<int64_t> labels(batch.labels.classes.begin(), batch.labels.classes.end());
  return torch::cross_entropy_loss(logits, torch::tensor(labels, torch::kInt64));
}

std::string LayerBlock(int64_t layer) { return fmt::format("encoder.layer.{}", layer); }

std::vector<ParameterSpec> CheckedParameters(const ModelConfig& config, Task task) {
  ValidateModelConfig(config, "config.json");
  return BertParameters(config, task);
}

}  // namespace

EncoderLayerNames BertLayerNames(int64_t layer, bool reversible) {
  const auto name = [prefix = "bert." + LayerBlock(layer)](const char* part) { return prefix + part; };
  return {.query = name(".attention.self.query"),
          .key = name(".attention.self.key"),
          .value = name(".attention.self.value"),
          .attention_output = name(".attention.output.dense"),
          .attention_norm = name(reversible ? ".attention.LayerNorm" : ".attention.output.LayerNorm"),
          .inner = name(".intermediate.dense"),
          .outer = name(".output.dense"),
          .feed_forward_norm = name(reversible ? ".intermediate.LayerNorm" : ".output.LayerNorm")};
}

std::vector<ParameterSpec> BertParameters(const ModelConfig& config, Task task) {
  const int64_t hidden = config.hidden_size;
  const std::string square = fmt::format("hidden_size {}", hidden);
  std::vector<ParameterSpec> specs;
  Embeddings::AppendSpecs(specs, "bert.embeddings",
                          {config.vocab_size, config.max_position_embeddings, config.type_vocab_size, hidden});
  const auto append_layer = config.reversible ? ReversibleEncoderLayer::AppendSpecs : EncoderLayer::AppendSpecs;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    append_layer(specs, BertLayerNames(layer, config.reversible), LayerBlock(layer), config);
  if (config.reversible) AppendLayerNorm(specs, "bert.encoder.LayerNorm", hidden, "encoder.LayerNorm");
  if (HasPooler(task)) AppendLinear(specs, "bert.pooler.dense", hidden, hidden, "pooler", square);
  if (HasMaskedLm(task)) {
    specs.push_back({"cls.predictions.bias",
                     {config.vocab_size},
                     Initial::kZero,
                     "head",
                     fmt::format("vocab_size {}", config.vocab_size),
                     {.decays = false}});
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
    : Model(std::move(config), task),
      embeddings_(parameters, "bert.embeddings", config_.layer_norm_eps, config_.hidden_dropout_prob,
                  config_.pad_token_id) {
  for (const ParameterSpec& spec : CheckedParameters(config_, task))
    named_.emplace_back(spec.name, parameters.Get(spec.name));
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const EncoderLayerNames names = BertLayerNames(layer, config_.reversible);
    if (config_.reversible)
      reversible_layers_.emplace_back(parameters, names, config_, layer);
    else
      layers_.emplace_back(parameters, names, config_, layer);
  }
  if (config_.reversible) encoder_norm_.emplace(parameters, "bert.encoder.LayerNorm", config_.layer_norm_eps);
  if (HasPooler(task)) pooler_ = parameters.LinearOf("bert.pooler.dense");
  if (HasMaskedLm(task)) {
    transform_ = parameters.LinearOf("cls.predictions.transform.dense");
    transform_norm_.emplace(parameters, "cls.predictions.transform.LayerNorm", config_.layer_norm_eps);
    decoder_bias_ = parameters.Get("cls.predictions.bias");
    decoder_ = Linear({embeddings_.words()}, {decoder_bias_});
  }
  if (task == Task::kPretraining) seq_relationship_ = parameters.LinearOf("cls.seq_relationship");
  if (task == Task::kSequenceClassification) classifier_ = parameters.LinearOf("classifier");
  if (task == Task::kQuestionAnswering) qa_outputs_ = parameters.LinearOf("qa_outputs");
}

void BertModel::CheckBatch(const PackedBatch& batch) const {
  CheckStreams(batch, FamilyOf(config_));
  const TokenStream& stream = batch.tokens;
  for (int sequence = 0; sequence < batch.sequences(); ++sequence) {
    const int32_t begin = stream.cu_seqlens[sequence], end = stream.cu_seqlens[sequence + 1];
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
    check(stream.ids, "id", config_.vocab_size);
    check(stream.type_ids, "token type", config_.type_vocab_size);
    check(stream.positions, "position", config_.max_position_embeddings);
  }
}

torch::Tensor BertModel::Encode(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output,
                                bool record) const {
  torch::Tensor hidden = embeddings_(batch.tokens, context);  // [T, H]
  if (record) output.hidden_states.push_back(hidden);
  if (config_.reversible) return EncodeReversibly(hidden, context, output, record);
  const ForwardContext replay = context.Replay();
  for (const EncoderLayer& layer : layers_) {
    hidden = layer(hidden, context, replay);  // [T, H]
    if (record) output.hidden_states.push_back(hidden);
  }
  return hidden;
}

torch::Tensor BertModel::EncodeReversibly(const torch::Tensor& embeddings, const ForwardContext& context,
                                          ModelOutput& output, bool record) const {
  const ForwardContext replay = context.Replay();
  std::vector<ReversibleLayer> layers;
  for (const ReversibleEncoderLayer& layer : reversible_layers_) layers.push_back(layer(context, replay));
  const auto visit = [&](const torch::Tensor& mean) { output.hidden_states.push_back(mean); };
  const torch::Tensor mean = record ? RunReversible(embeddings, layers, visit) : RunReversible(embeddings, layers);
  return (*encoder_norm_)(mean, {}, {});
}

torch::Tensor BertModel::Pool(const PackedBatch& batch, const torch::Tensor& hidden) const {
  const std::vector<int64_t> first(batch.tokens.cu_seqlens.begin(), batch.tokens.cu_seqlens.end() - 1);
  return Apply(UnaryFunction::kTanh, (*pooler_)(GatherRows(hidden, first)));
}

torch::Tensor BertModel::Transform(const torch::Tensor& hidden) const {
  return (*transform_norm_)(transform_->Then(Function(config_.hidden_act), hidden, DecoderPrecision()), {}, {});
}

void BertModel::RunMaskedLm(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const {
  std::vector<int64_t> labelled;
  std::vector<int32_t> labels;
  for (size_t token = 0; token < batch.labels.tokens.size(); ++token) {
    const int32_t label = batch.labels.tokens[token];
    if (label == kIgnoredLabel) continue;
    if (label < 0 || label >= config_.vocab_size)
      Fail("token {}: label {} is out of range, expected -100 or 0 to {}", token, label, config_.vocab_size - 1);
    labelled.push_back(static_cast<int64_t>(token));
    labels.push_back(label);
  }
  if (!batch.labels.tokens.empty() && batch.labels.tokens.size() != batch.tokens.ids.size())
    Fail("the batch has {} tokens and {} token labels", batch.tokens.ids.size(), batch.labels.tokens.size());
  const bool has_labels = !batch.labels.tokens.empty(), gradients = torch::GradMode::is_enabled();
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
  if (has_labels && !gradients) output.loss = torch::full({}, CrossEntropyLoss(output.logits, batch.labels.tokens));
}

void BertModel::RunPretraining(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const {
  const std::vector<int64_t> items = LossItems(task_, batch.labels);
  // A mean over no token would be NaN, and take the other term with it.
  if (items[0] > 0 || !options.train) RunMaskedLm(batch, options, output);
  torch::Tensor token_loss, sequence_loss;
  if (items[0] > 0) token_loss = output.loss;
  output.loss = token_loss;
  output.seq_relationship_logits = (*seq_relationship_)(output.pooler_output);  // [B, 2]
  if (items[1] > 0) {
    sequence_loss = ClassLoss(output.seq_relationship_logits, batch);
    output.loss = output.loss.defined() ? output.loss + sequence_loss : sequence_loss;
  }
  output.terms = {{token_loss, items[0]}, {sequence_loss, items[1]}};
}

void BertModel::RunClassification(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const {
  auto firsts = std::make_shared<RowIdentities>();
  firsts->sequence_ids = context.sequences->ids;
  firsts->positions.assign(firsts->sequence_ids.size(), 0);
  const double own = config_.own<BertConfig>().classifier_dropout;
  const torch::Tensor pooled =
      Dropout(output.pooler_output,
              context.DropoutAt(DropoutSite::kHead, 0, own < 0 ? config_.hidden_dropout_prob : own, std::move(firsts)));
  output.logits = (*classifier_)(pooled);  // [B, labels]
  const auto sequences = static_cast<size_t>(batch.sequences());
  if (!batch.labels.values.empty()) {
    if (batch.labels.values.size() != sequences || config_.num_labels != 1)
      Fail("{} regression labels for {} sequences and {} outputs", batch.labels.values.size(), sequences,
           config_.num_labels);
    output.loss = torch::mse_loss(output.logits.squeeze(1), torch::tensor(batch.labels.values));
  } else if (!batch.labels.classes.empty()) {
    output.loss = ClassLoss(output.logits, batch);
  }
}

void BertModel::RunQuestionAnswering(const PackedBatch& batch, ModelOutput& output) const {
  const torch::Tensor logits = (*qa_outputs_)(output.last_hidden_state);  // [T, 2]
  output.start_logits = logits.select(1, 0);                              // [T]
  output.end_logits = logits.select(1, 1);                                // [T]
  if (batch.labels.start_positions.empty() && batch.labels.end_positions.empty()) return;
  output.loss =
      SpanCrossEntropy(logits, batch.tokens.cu_seqlens, batch.labels.start_positions, batch.labels.end_positions);
}

ModelOutput BertModel::Forward(const PackedBatch& batch, const ForwardOptions& options) {
  CheckBatch(batch);
  ForwardContext context(batch.tokens, batch.sequence_ids);
  context.train = options.train;
  context.seed = options.seed;
  context.step = static_cast<uint64_t>(options.step);
  context.dropout_step = context.step | static_cast<uint64_t>(options.micro_step) << 40;
  context.recompute_layers = options.gradient_checkpointing;
  context.counts = options.counts;
  context.precision = precision_;
  ModelOutput output;
  if (options.attentions) context.attentions = &output.attentions;
  output.last_hidden_state = Encode(batch, context, output, options.hidden_states);  // [T, H]
  if (pooler_) output.pooler_output = Pool(batch, output.last_hidden_state);         // [B, H]
  if (task_ == Task::kPretraining) {
    RunPretraining(batch, options, output);
    return output;
  }
  if (task_ == Task::kMaskedLm) RunMaskedLm(batch, options, output);
  if (task_ == Task::kSequenceClassification) RunClassification(batch, context, output);
  if (task_ == Task::kQuestionAnswering) RunQuestionAnswering(batch, output);
  if (output.loss.defined()) output.terms = {{output.loss, LossItems(task_, batch.labels).front()}};
  return output;
}

}  // namespace lshformer
