#include "models/qanet/qanet.h"

#include <cmath>

#include "models/qanet/config.h"
#include "models/span_answers.h"
#include "models/word_batch.h"
#include "nn/word_streams.h"
#include "ops/gather_rows.h"

namespace lshformer {
namespace {

constexpr const char *kEmbeddingEncoder = "embedding_encoder", *kModelEncoder = "model_encoder";
constexpr const char *kContextQuery = "context_query_attention", *kResizer = "resizer";
constexpr int kPasses = 3;

WordEmbeddingsShape WordShape(const ModelConfig& config) {
  return {.words = config.vocab_size,
          .width = config.embedding_size,
          .map = config.hidden_size,
          .highway = {.width = config.hidden_size, .function = {}, .dropout = config.hidden_dropout_prob},
          .words_config = config.own<QanetConfig>()};
}

ConvolutionEncoder::Shape EmbeddingEncoderShape(const ModelConfig& config) {
  const QanetConfig& own = config.own<QanetConfig>();
  return {1, {own.embedding_encoder_convolutions, own.embedding_encoder_kernel_size, own.layer_dropout}};
}

ConvolutionEncoder::Shape ModelEncoderShape(const ModelConfig& config) {
  const QanetConfig& own = config.own<QanetConfig>();
  return {config.num_hidden_layers, {own.model_encoder_convolutions, own.model_encoder_kernel_size, own.layer_dropout}};
}

ContextQueryWeights WeightsOf(const ParameterMap& parameters) {
  const auto get = [&](const char* part) { return parameters.Get(fmt::format("{}.{}", kContextQuery, part)); };
  return {get("context"), get("query"), get("product"), get("bias")};
}

std::vector<ConvolutionEncoder> Passes(const ParameterMap& parameters, const ModelConfig& config) {
  std::vector<ConvolutionEncoder> passes;
  const ConvolutionEncoder::Shape shape = ModelEncoderShape(config);
  ConvolutionEncoder::Place place = ConvolutionEncoder::Place().After(EmbeddingEncoderShape(config));
  for (int pass = 0; pass < kPasses; ++pass, place = place.After(shape))
    passes.emplace_back(parameters, kModelEncoder, config, shape, place);
  return passes;
}

}  // namespace

std::vector<ParameterSpec> QanetParameters(const ModelConfig& config, Task) {
  const int64_t width = config.hidden_size;
  const double size = static_cast<double>(width);
  const std::string reason = fmt::format("hidden_size {}", width);
  std::vector<ParameterSpec> specs;
  const auto uniform = [&](std::string name, std::vector<int64_t> shape, double bound, const char* block) {
    specs.push_back({std::move(name), std::move(shape), Initial::kUniform, block, reason, {}, bound});
  };
  WordEmbeddings::AppendSpecs(specs, WordShape(config));
  ConvolutionEncoder::AppendSpecs(specs, kEmbeddingEncoder, config, EmbeddingEncoderShape(config), /*uses=*/1);
  for (const char* part : {"context", "query", "product"})
    uniform(fmt::format("{}.{}", kContextQuery, part), {width}, 1 / std::sqrt(size), kContextQuery);
  specs.push_back(
      {fmt::format("{}.bias", kContextQuery), {1}, Initial::kZero, kContextQuery, "one number", {.decays = false}});
  uniform(fmt::format("{}.weight", kResizer), {width, 4 * width}, std::sqrt(6 / (5 * size)), kResizer);
  ConvolutionEncoder::AppendSpecs(specs, kModelEncoder, config, ModelEncoderShape(config), kPasses);
  for (const char* name : {"start.weight", "end.weight"})
    uniform(name, {1, 2 * width}, std::sqrt(6 / (2 * size + 1)), "output");
  // The embedding encoder's one block, then those of every pass.
  LayerAttention::AppendSpecs(specs, config, 1 + kPasses * config.num_hidden_layers,
                              [&](int64_t visit) { return visit == 0 ? 0 : (visit - 1) % config.num_hidden_layers; });
  return specs;
}

QanetModel::QanetModel(ModelConfig config, Task task, const ParameterMap& parameters)
    : Model(std::move(config), task),
      named_(parameters.Named(QanetParameters(config_, task))),
      words_(parameters, WordShape(config_)),
      embedding_encoder_(parameters, kEmbeddingEncoder, config_, EmbeddingEncoderShape(config_), {}),
      context_query_(WeightsOf(parameters)),
      resizer_(parameters.LinearOf(kResizer)),
      passes_(Passes(parameters, config_)),
      start_(parameters.LinearOf("start")),
      end_(parameters.LinearOf("end")) {}

QanetModel::Embedded QanetModel::Embed(const WordStreams& streams, const ForwardContext& context,
                                       std::vector<torch::Tensor>* hidden_states) const {
  const int64_t contexts = streams.context.size();
  const ContextsAndQuestions both(streams, context);
  const torch::Tensor words = words_(streams, ContextOfWords(streams, context));  // [W, H]
  std::vector<torch::Tensor> states{GatherRows(words, both.stream.ids)};          // [T + U, H]
  const torch::Tensor encoded =
      embedding_encoder_(states[0], PositionSignal(both.stream.positions, words.size(1)),
                         context.Over(both.stream, both.sequence_ids), hidden_states == nullptr ? nullptr : &states);
  if (hidden_states != nullptr)
    for (const torch::Tensor& state : states) hidden_states->push_back(state.narrow(0, 0, contexts));
  return {encoded.narrow(0, 0, contexts), encoded.narrow(0, contexts, streams.question.size())};
}

std::array<torch::Tensor, 3> QanetModel::Encode(const torch::Tensor& resized, const ForwardContext& context,
                                                std::vector<torch::Tensor>* hidden_states) const {
  const torch::Tensor signal = PositionSignal(context.rows->positions, resized.size(1));  // [T, H]
  const auto drop = [&](const torch::Tensor& x, uint32_t pass) {
    return Dropout(x, context.DropoutAt(DropoutSite::kPass, pass, config_.hidden_dropout_prob, context.rows));
  };
  const torch::Tensor one = passes_[0](drop(resized, 0), signal, context, hidden_states);  // [T, H]
  const torch::Tensor two = passes_[1](one, signal, context, hidden_states);               // [T, H]
  const torch::Tensor three = passes_[2](drop(two, 2), signal, context, hidden_states);    // [T, H]
  return {one, two, three};
}

ModelOutput QanetModel::Run(const PackedBatch& batch, const ForwardOptions& options) {
  CheckWordBatch(batch, config_, config_.own<QanetConfig>());
  const WordStreams streams(batch);
  ModelOutput output;
  const ForwardContext context = ContextOf(batch, options, output);
  std::vector<torch::Tensor>* const hidden_states = HiddenStates(options, output);
  const Embedded embedded = Embed(streams, context, hidden_states);
  const torch::Tensor attended =
      ContextQueryAttention(embedded.context, streams.context.cu_seqlens, embedded.question,
                            streams.question.cu_seqlens, context_query_, QueryToContext::kDoubleSoftmax);  // [T, 4·H]
  const torch::Tensor resized = resizer_(attended, context.precision);                                     // [T, H]
  const auto [one, two, three] = Encode(resized, context, hidden_states);                                  // [T, H]
  output.last_hidden_state = three;
  const torch::Tensor start = start_(torch::cat({one, two}, 1)), end = end_(torch::cat({one, three}, 1));  // [T, 1]
  FinishAnswers(batch, torch::cat({start, end}, 1), output);
  return output;
}

}  // namespace lshformer
