#include "nn/convolution_encoder.h"

#include <fmt/format.h>

namespace lshformer {

void ConvolutionEncoder::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix,
                                     const EncoderConfig& config, const Shape& shape, int uses) {
  const size_t first = specs.size();
  for (int64_t i = 0; i < shape.blocks; ++i) {
    const std::string block = fmt::format("{}.{}", prefix, i);
    ConvolutionBlock::AppendSpecs(specs, block, config, shape.block, block);
  }
  for (size_t i = first; i < specs.size(); ++i) specs[i].role.uses = uses;
}

ConvolutionEncoder::ConvolutionEncoder(const ParameterMap& parameters, const std::string& prefix,
                                       const EncoderConfig& config, const Shape& shape, const Place& place)
    : reversible_(config.reversible), pairs_(static_cast<size_t>(shape.block.sublayers() / 2)) {
  for (int64_t i = 0; i < shape.blocks; ++i) {
    const int64_t before = i * shape.block.sublayers();
    blocks_.emplace_back(
        parameters, fmt::format("{}.{}", prefix, i), config, shape.block,
        ConvolutionBlockPlace{i, static_cast<uint32_t>(place.blocks + i),
                              static_cast<uint32_t>(place.sublayers + before), before, shape.sublayers()});
  }
}

torch::Tensor ConvolutionEncoder::operator()(const torch::Tensor& x, const torch::Tensor& signal,
                                             const ForwardContext& context,
                                             std::vector<torch::Tensor>* hidden_states) const {
  if (reversible_) return RunReversibly(x, signal, context, hidden_states);
  const ForwardContext replay = context.Replay();
  torch::Tensor hidden = x;
  for (const ConvolutionBlock& block : blocks_) {
    hidden = block(hidden, signal, context, replay);  // [T, H]
    if (hidden_states != nullptr) hidden_states->push_back(hidden);
  }
  return hidden;
}

torch::Tensor ConvolutionEncoder::RunReversibly(const torch::Tensor& x, const torch::Tensor& signal,
                                                const ForwardContext& context,
                                                std::vector<torch::Tensor>* hidden_states) const {
  const ForwardContext replay = context.Replay();
  std::vector<ReversibleLayer> pairs;
  for (const ConvolutionBlock& block : blocks_)
    for (ReversibleLayer& pair : block.Pairs(signal, context, replay)) pairs.push_back(std::move(pair));
  if (hidden_states == nullptr) return RunReversible(x, pairs);
  size_t pair = 0;
  return RunReversible(x, pairs, [&](const torch::Tensor& mean) {
    if (++pair % pairs_ == 0) hidden_states->push_back(mean);
  });
}

}  // namespace lshformer
