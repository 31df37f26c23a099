#include "models/pooled_heads.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lshformer {
namespace {

// Mean binary cross-entropy of [B, labels] by the batch's flags.
torch::Tensor FlagLoss(const torch::Tensor& logits, const PackedBatch& batch) {
  if (static_cast<int64_t>(batch.labels.flags.size()) != logits.numel())
    Fail("{} labels of yes or no for {} sequences and {} outputs", batch.labels.flags.size(), logits.size(0),
         logits.size(1));
  const torch::Tensor flags = torch::tensor(batch.labels.flags).view(logits.sizes());  // [B, labels]
  return torch::binary_cross_entropy_with_logits(logits, flags);
}

}  // namespace

void Pooler::AppendSpecs(std::vector<ParameterSpec>& specs, const PoolerForm& form, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  HeadTransform::AppendSpecs(
      specs, form.transform,
      {.out = hidden, .in = hidden, .reason = fmt::format("{} {}", FamilyOf(config).encoder_keys.hidden_size, hidden)},
      form.block);
}

Pooler::Pooler(const ParameterMap& parameters, const PoolerForm& form, double eps)
    : transform_(parameters, form.transform, eps), pooling_(form.pooling), dropout_(form.dropout) {}

torch::Tensor Pooler::operator()(const LastStates& last, const PackedBatch& batch,
                                 const ForwardContext& context) const {
  const torch::Tensor states =
      reads_first() ? last.Of(FirstTokens(batch))
                    : Pool(last.states, batch.tokens.cu_seqlens, pooling_).to(torch::kFloat32);  // [B, H]
  return transform_(Dropout(states, context.DropoutPerSequence(DropoutSite::kHead, /*layer=*/1, dropout_)));
}

void PooledMap::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& name, int64_t outputs,
                            const std::string& what, const ModelConfig& config) {
  AppendLinear(specs, name, outputs, config.hidden_size, "head",
               fmt::format("{}, hidden_size {}", what, config.hidden_size));
}

torch::Tensor PooledMap::operator()(const torch::Tensor& pooled, const ForwardContext& context) const {
  return map_(Dropout(pooled, context.DropoutPerSequence(DropoutSite::kHead, 0, dropout_)));
}

torch::Tensor ClassLoss(const torch::Tensor& logits, const PackedBatch& batch) {
  const int64_t classes = logits.size(1);
  if (std::ssize(batch.labels.classes) != logits.size(0))
    Fail("{} labels for {} sequences", batch.labels.classes.size(), logits.size(0));
  for (size_t i = 0; i < batch.labels.classes.size(); ++i)
    if (batch.labels.classes[i] < 0 || batch.labels.classes[i] >= classes)
      Fail("sequence {}: label {} is out of range, expected 0 to {}", i, batch.labels.classes[i], classes - 1);
  const std::vector<int64_t> labels(batch.labels.classes.begin(), batch.labels.classes.end());
  return torch::cross_entropy_loss(logits, torch::tensor(labels, torch::kInt64));
}

torch::Tensor LabelLoss(const torch::Tensor& logits, const PackedBatch& batch) {
  const Labels& labels = batch.labels;
  if (!labels.values.empty()) {
    if (std::ssize(labels.values) != logits.size(0) || logits.size(1) != 1)
      Fail("{} regression labels for {} sequences and {} outputs", labels.values.size(), logits.size(0),
           logits.size(1));
    return torch::mse_loss(logits.squeeze(1), torch::tensor(labels.values));
  }
  if (!labels.flags.empty()) return FlagLoss(logits, batch);
  return labels.classes.empty() ? torch::Tensor() : ClassLoss(logits, batch);
}

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

}  // namespace lshformer
