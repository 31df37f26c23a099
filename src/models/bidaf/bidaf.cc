#include "models/bidaf/bidaf.h"

#include <cmath>

#include "models/bidaf/config.h"
#include "models/span_answers.h"
#include "models/word_batch.h"
#include "ops/attentive_pooling.h"
#include "ops/gather_rows.h"

namespace lshformer {
namespace {

constexpr const char *kEncoder = "encoder", *kModelling = "modelling", *kEndEncoder = "end_encoder";
constexpr const char *kStartAttended = "outputs.start_attended", *kEndAttended = "outputs.end_attended",
                     *kStartModelled = "outputs.start_modelled", *kEndModelled = "outputs.end_modelled";
constexpr int64_t kModellingLayers = 2;

// The LSTMs by the number of what they read, for dropout: part of reproducibility.
enum Reader : uint32_t { kEncoderReads = 0, kModellingReads = 1, kEndEncoderReads = 3 };
enum Output : uint32_t { kAttendedOutput = 0, kStartOutput = 1, kEndOutput = 2 };

// 8d of G, of [M; m̃; M∘m̃] 6d more.
int64_t EndInput(const ModelConfig& config) {
  return (config.own<BidafConfig>().end_pointer == EndPointer::kModelling ? 2 : 14) * config.hidden_size;
}

WordEmbeddingsShape EmbeddingsOf(const ModelConfig& config) {
  const BidafConfig& own = config.own<BidafConfig>();
  WordEmbeddingsShape shape{.words = config.vocab_size, .width = config.embedding_size, .words_config = own};
  if (own.embedding_map) shape.map = config.hidden_size;
  return shape;
}

BiLstmShape LstmOf(const ModelConfig& config, int64_t input, int64_t layer = 0) {
  return {.input = input,
          .hidden = config.hidden_size,
          .layer = layer,
          .second_bias = config.own<BidafConfig>().second_biases};
}

BiLstmShape ModellingOf(const ModelConfig& config, int64_t layer) {
  return LstmOf(config, (layer == 0 ? 8 : 2) * config.hidden_size, layer);
}

std::vector<BiLstmLayer> ModellingLayers(const ModelConfig& config, const ParameterMap& parameters) {
  std::vector<BiLstmLayer> layers;
  for (int64_t layer = 0; layer < kModellingLayers; ++layer)
    layers.emplace_back(parameters, kModelling, ModellingOf(config, layer));
  return layers;
}

void AppendAttention(std::vector<ParameterSpec>& specs, int64_t width, const std::string& reason) {
  const double bound = 1 / std::sqrt(3 * static_cast<double>(width));  // of the one map of [h; u; h∘u] that they are
  for (const char* part : {"context", "question", "product"})
    specs.push_back(
        {fmt::format("attention.{}.weight", part), {width}, Initial::kUniform, "attention", reason, {}, bound});
  specs.push_back({"attention.bias", {1}, Initial::kZero, "attention", reason, {.decays = false}});
}

}  // namespace

std::vector<ParameterSpec> BidafParameters(const ModelConfig& config, Task) {
  const int64_t d = config.hidden_size;
  const std::string size = fmt::format("hidden_size {}", d);
  const WordEmbeddingsShape embeddings = EmbeddingsOf(config);
  std::vector<ParameterSpec> specs;
  WordEmbeddings::AppendSpecs(specs, embeddings);
  BiLstmLayer::AppendSpecs(specs, kEncoder, LstmOf(config, embeddings.output()), "encoder",
                           fmt::format("{}, word embeddings of {}", size, embeddings.output()));
  AppendAttention(specs, 2 * d, size);
  for (int64_t layer = 0; layer < kModellingLayers; ++layer)
    BiLstmLayer::AppendSpecs(specs, kModelling, ModellingOf(config, layer), "modelling", size);
  BiLstmLayer::AppendSpecs(specs, kEndEncoder, LstmOf(config, EndInput(config)), "head", size);
  const Bias second = config.own<BidafConfig>().second_biases ? Bias::kOne : Bias::kNone;
  AppendUniformLinear(specs, kStartAttended, 1, 8 * d, Bias::kOne, "head", size);
  AppendUniformLinear(specs, kEndAttended, 1, 8 * d, Bias::kOne, "head", size);
  AppendUniformLinear(specs, kStartModelled, 1, 2 * d, second, "head", size);
  AppendUniformLinear(specs, kEndModelled, 1, 2 * d, second, "head", size);
  return specs;
}

BidafModel::BidafModel(ModelConfig config, Task task, const ParameterMap& parameters)
    : Model(std::move(config), task),
      named_(parameters.Named(BidafParameters(config_, task))),
      embeddings_(parameters, EmbeddingsOf(config_)),
      encoder_(parameters, kEncoder, LstmOf(config_, EmbeddingsOf(config_).output())),
      query_to_context_(config_.own<BidafConfig>().question_to_context == QuestionToContext::kMaximum
                            ? QueryToContext::kMaximum
                            : QueryToContext::kDoubleSoftmax),
      attention_{.context = parameters.Get("attention.context.weight"),
                 .query = parameters.Get("attention.question.weight"),
                 .product = parameters.Get("attention.product.weight"),
                 .bias = parameters.Get("attention.bias")},
      modelling_(ModellingLayers(config_, parameters)),
      end_encoder_(parameters, kEndEncoder, LstmOf(config_, EndInput(config_))),
      attended_start_(config_.own<BidafConfig>().end_pointer == EndPointer::kAttendedStart),
      attended_outputs_(parameters.LinearOf(std::vector<std::string>{kStartAttended, kEndAttended})),
      start_output_(parameters.LinearOf(kStartModelled)),
      end_output_(parameters.LinearOf(kEndModelled)) {}

torch::Tensor BidafModel::Attend(const PackedBatch& batch, const ForwardContext& context,
                                 std::vector<torch::Tensor>* hidden_states) const {
  const WordStreams streams(batch);
  const torch::Tensor words = embeddings_(streams, ContextOfWords(streams, context));  // [W, e]
  const ContextsAndQuestions both(streams, context);
  const ForwardContext over = context.Over(both.stream, both.sequence_ids);
  const torch::Tensor rows = GatherRows(words, both.stream.ids);  // [T + J, e]
  const torch::Tensor encoded = encoder_(
      Dropout(rows, over.DropoutAt(DropoutSite::kRecurrent, kEncoderReads, config_.hidden_dropout_prob, over.rows)),
      both.stream.cu_seqlens);  // [T + J, 2d]
  const int64_t contexts = streams.context.size();
  const torch::Tensor h = encoded.slice(0, 0, contexts), u = encoded.slice(0, contexts);  // [T, 2d], [J, 2d]
  if (hidden_states != nullptr) hidden_states->insert(hidden_states->end(), {rows.slice(0, 0, contexts), h});
  return ContextQueryAttention(h, streams.context.cu_seqlens, u, streams.question.cu_seqlens, attention_,
                               query_to_context_);
}

torch::Tensor BidafModel::ModelContext(const torch::Tensor& attended, const ForwardContext& context) const {
  torch::Tensor modelled = attended;
  for (size_t layer = 0; layer < modelling_.size(); ++layer) {
    const DropoutSpec dropout =
        context.DropoutAt(DropoutSite::kRecurrent, kModellingReads + static_cast<uint32_t>(layer),
                          config_.hidden_dropout_prob, context.rows);
    modelled = modelling_[layer](Dropout(modelled, dropout), context.sequences->cu_seqlens);  // [T, 2d]
  }
  return modelled;
}

torch::Tensor BidafModel::Point(const torch::Tensor& attended, const torch::Tensor& modelled,
                                const ForwardContext& context) const {
  const std::vector<int32_t>& cu_seqlens = context.sequences->cu_seqlens;
  const auto dropped = [&](const torch::Tensor& x, DropoutSite site, uint32_t place) {
    return Dropout(x, context.DropoutAt(site, place, config_.hidden_dropout_prob, context.rows));
  };
  const torch::Tensor shares =
      attended_outputs_(dropped(attended, DropoutSite::kHead, kAttendedOutput));  // [T, 2], start and end
  const torch::Tensor start =
      shares.slice(1, 0, 1) + start_output_(dropped(modelled, DropoutSite::kHead, kStartOutput));  // [T, 1]
  torch::Tensor read = modelled;
  if (attended_start_) {
    std::vector<int32_t> sequence_of_row;
    for (int32_t b = 0; b + 1 < static_cast<int32_t>(cu_seqlens.size()); ++b)
      sequence_of_row.insert(sequence_of_row.end(), cu_seqlens[b + 1] - cu_seqlens[b], b);
    const torch::Tensor likely =
        GatherRows(AttentivePooling(start.squeeze(1), modelled, cu_seqlens), sequence_of_row);  // [T, 2d]
    read = torch::cat({attended, modelled, likely, modelled * likely}, 1);                      // [T, 14d]
  }
  const torch::Tensor last =
      end_encoder_(dropped(read, DropoutSite::kRecurrent, kEndEncoderReads), cu_seqlens);  // [T, 2d]
  const torch::Tensor end = shares.slice(1, 1, 2) + end_output_(dropped(last, DropoutSite::kHead, kEndOutput));
  return torch::cat({start, end}, 1);
}

ModelOutput BidafModel::Run(const PackedBatch& batch, const ForwardOptions& options) {
  CheckWordBatch(batch, config_, config_.own<BidafConfig>());
  ModelOutput output;
  const ForwardContext context = ContextOf(batch, options, output);
  std::vector<torch::Tensor>* const hidden_states = HiddenStates(options, output);
  const torch::Tensor attended = Attend(batch, context, hidden_states);  // [T, 8d]
  output.last_hidden_state = ModelContext(attended, context);            // [T, 2d]
  if (hidden_states != nullptr) hidden_states->insert(hidden_states->end(), {attended, output.last_hidden_state});
  FinishAnswers(batch, Point(attended, output.last_hidden_state, context), output);
  return output;
}

}  // namespace lshformer
