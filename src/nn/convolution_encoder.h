// QANet's encoder blocks one after another, ordinary or reversible as "reversible" says.
//
// Stacks that are given the same prefix share their parameters and the packed forms of them. Dropout, stochastic depth
// and hash planes are each stack's own.
#pragma once
#include <string>
#include <vector>

#include "nn/convolution_block.h"

namespace lshformer {

class ConvolutionEncoder {
 public:
  struct Shape {
    int64_t blocks;
    ConvolutionBlockShape block;
    int64_t sublayers() const { return blocks * block.sublayers(); }
  };
  // What a forward ran before: blocks and sub-layers, of whatever stacks.
  struct Place {
    int64_t blocks = 0, sublayers = 0;
    Place After(const Shape& shape) const { return {blocks + shape.blocks, sublayers + shape.sublayers()}; }
  };

  // "<prefix>.<block>.…". `uses`: stacks that share them.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const EncoderConfig& config,
                          const Shape& shape, int uses);
  // Block i has the attention of layer i of the config.
  ConvolutionEncoder(const ParameterMap& parameters, const std::string& prefix, const EncoderConfig& config,
                     const Shape& shape, const Place& place);
  // [T, H] → [T, H]; reversible: the mean of the two streams, which both begin as x. signal: PositionSignal of the
  // rows. hidden_states, where given, gets what is behind each block; reversible: the mean there.
  torch::Tensor operator()(const torch::Tensor& x, const torch::Tensor& signal, const ForwardContext& context,
                           std::vector<torch::Tensor>* hidden_states) const;

 private:
  torch::Tensor RunReversibly(const torch::Tensor& x, const torch::Tensor& signal, const ForwardContext& context,
                              std::vector<torch::Tensor>* hidden_states) const;
  bool reversible_;
  size_t pairs_;  // of a block
  std::vector<ConvolutionBlock> blocks_;
};

}  // namespace lshformer
