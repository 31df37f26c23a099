#include "nn/self_attention.h"

#include "base/philox.h"

namespace lshformer {

LayerAttention::LayerAttention(const EncoderConfig& config, const AttentionSpec& attention, uint32_t layer)
    : layer_(layer),
      heads_(static_cast<int>(config.num_attention_heads)),
      spec_(attention),
      dropout_(config.attention_probs_dropout_prob) {}

torch::Tensor LayerAttention::operator()(const torch::Tensor& qkv, const ForwardContext& context) const {
  auto options = std::make_shared<AttentionOptions>();
  options->spec = spec_;
  options->heads = heads_;
  options->layer = layer_;
  options->planes_step = context.train && spec_.resample == Resample::kCall ? context.step : 0;
  options->operands = OperandsOf(context.precision);
  options->cu_seqlens = context.sequences->cu_seqlens;
  options->counts = context.counts;
  options->drawn = drawn_;
  if (context.train && dropout_ > 0) {
    options->dropout = dropout_;
    options->dropout_key = StreamKey(context.seed, context.dropout_step, layer_, 0, Purpose::kAttentionDropout);
    options->sequence_ids = context.sequences->ids;
  }
  if (context.attentions != nullptr) context.attentions->push_back(AttentionProbabilities(qkv.detach(), *options));
  return SelfAttention(qkv, std::move(options));
}

}  // namespace lshformer
