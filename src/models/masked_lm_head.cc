#include "models/masked_lm_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/masking.h"
#include "ops/decoder_cross_entropy.h"

namespace lshformer {
namespace {

// int8's error would reorder the words at the top, and the decoder sees few rows.
Precision DecoderPrecision(Precision precision) {
  return precision == Precision::kInt8 ? Precision::kFloat32 : precision;
}

std::vector<int64_t> LabelledTokens(const PackedBatch& batch) {
  std::vector<int64_t> labelled;
  for (size_t token = 0; token < batch.labels.tokens.size(); ++token)
    if (batch.labels.tokens[token] != kIgnoredLabel) labelled.push_back(static_cast<int64_t>(token));
  return labelled;
}

}  // namespace

bool HasTokenLabel(const PackedBatch& batch) {
  return std::any_of(batch.labels.tokens.begin(), batch.labels.tokens.end(),
                     [](int32_t label) { return label != kIgnoredLabel; });
}

void MaskedLmHead::AppendSpecs(std::vector<ParameterSpec>& specs, const MaskedLmForm& form, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, width = config.embedding_width();
  const char* hidden_key = FamilyOf(config).encoder_keys.hidden_size;
  const std::string sizes = fmt::format("{} {}", hidden_key, hidden);
  if (!form.decoder_bias.empty())
    specs.push_back({form.decoder_bias,
                     {config.vocab_size},
                     Initial::kZero,
                     "head",
                     fmt::format("vocab_size {}", config.vocab_size),
                     {.decays = false}});
  const bool narrow = config.embedding_size != 0;
  HeadTransform::AppendSpecs(specs, form.transform,
                             {.out = width,
                              .in = hidden,
                              .out_key = narrow ? "embedding_size" : hidden_key,
                              .reason = narrow ? fmt::format("embedding_size {}, {}", width, sizes) : sizes},
                             "head");
}

namespace {

torch::Tensor DecoderBias(const ParameterMap& parameters, const MaskedLmForm& form, int64_t vocab_size) {
  return form.decoder_bias.empty() ? torch::zeros({vocab_size}) : parameters.Get(form.decoder_bias);
}

}  // namespace

MaskedLmHead::MaskedLmHead(const ParameterMap& parameters, const MaskedLmForm& form, const ModelConfig& config,
                           const torch::Tensor& words)
    : vocab_size_(config.vocab_size),
      words_(words),
      decoder_bias_(DecoderBias(parameters, form, vocab_size_)),
      transform_(parameters, form.transform, config.layer_norm_eps),
      decoder_({words_}, {decoder_bias_}) {}

std::vector<int64_t> MaskedLmHead::TokensRead(const PackedBatch& batch, const ForwardOptions& options) {
  if (batch.labels.tokens.empty() || options.all_logits) return {};
  return LabelledTokens(batch);
}

void MaskedLmHead::operator()(const LastStates& last, const PackedBatch& batch, const ForwardOptions& options,
                              Precision of_encoder, ModelOutput& output) const {
  const Precision precision = DecoderPrecision(of_encoder);
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
    const torch::Tensor rows = transform_(last.Of(labelled), precision);  // [labelled, width]
    if (gradients) output.loss = DecoderCrossEntropy(rows, words_, decoder_bias_, labels, precision);
    if (gradients && options.train) return;
    const torch::NoGradGuard no_grad;
    output.logits = decoder_(rows, precision);  // [labelled, V]
    if (!gradients) output.loss = torch::full({}, CrossEntropyLoss(output.logits, labels));
    return;
  }
  const torch::Tensor rows = transform_(last.states, precision);  // [T, width]
  if (has_labels && gradients)
    output.loss = DecoderCrossEntropy(RowsAt(rows, labelled), words_, decoder_bias_, labels, precision);
  // Where a loss carries the gradient, logits of every position are only looked at.
  const torch::AutoGradMode grad_mode(gradients && !has_labels);
  output.logits = decoder_(rows, precision);  // [T, V]
  if (has_labels && !gradients) output.loss = torch::full({}, CrossEntropyLoss(output.logits, batch.labels.tokens));
}

}  // namespace lshformer
