// QANet's encoder block (Yu et al. 2018, section 2.2): n convolutions, self-attention, a feed-forward, each
//
//   x ← x + layer_dropout(f(dropout(LayerNorm(x))))
//
//   convolution   f(x) = relu(W·depthwise(x) + b), dropout before every other one
//   attention     f(x) = attention of Q·x, K·x, V·x: maps without biases, and none behind
//   feed-forward  f(x) = W_2·relu(W_1·x + b_1) + b_2, all [H]
//
// In front of the first the position signal is added to x: sin(t/τ_i) in the first half of the columns, cos(t/τ_i) in
// the second, τ_i from 1 to 10⁴ in equal ratios.
//
// Stochastic depth (Huang et al. 2016): sub-layer l of a stack of L adds nothing with probability p_l = p·l/L, one
// decision a forward and sub-layer, the same for all rows; else its result goes through dropout with p_l, as the public
// implementations (NLPLearn's, and BangLiu's of torch) have it. Outside training it adds f as it is.
//
// The two streams of a reversible block (ops/reversible.h) have F and G of two sub-layers in turn: (convolution,
// convolution) …, (attention, feed-forward). The signal goes into both streams where the block begins: the first pair
// is F(x) = s + f(x + s), G(y) = s + g(y), which is that pair on x1 + s and x2 + s. The parameters are the same
// under other names of the LayerNorms.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/encoder_config.h"
#include "nn/forward_context.h"
#include "nn/layer_norm.h"
#include "nn/parameters.h"
#include "nn/self_attention.h"
#include "ops/reversible.h"

namespace lshformer {

struct ConvolutionBlockShape {
  int64_t convolutions, kernel_size;  // n; an odd width
  double layer_dropout;               // p
  int64_t sublayers() const { return convolutions + 2; }
};

// Which run of a block it is; a model may run one several times.
struct ConvolutionBlockPlace {
  int64_t layer;               // of the config, whose attention it has
  uint32_t visit;              // among the block runs of a forward: hash planes, dropout of attention's weights
  uint32_t first_sublayer;     // among those of a forward: their dropout
  int64_t before, stack_size;  // sub-layers of its stack before it, and in all: l − 1 of its first, L
};

// [T, width] for rows at these positions. float32, of values in double.
torch::Tensor PositionSignal(const std::vector<int32_t>& positions, int64_t width);

class ConvolutionBlock {
 public:
  // "<prefix>.convolutions.<i>.depthwise.weight" [H, k], ".pointwise", ".norm"; "<prefix>.attention.query", ".key",
  // ".value", ".norm", ".bias"; "<prefix>.feed_forward.inner", ".outer", ".norm". Norms of a reversible model are
  // "input_norm".
  //
  // attention.bias is the number that the public implementations add to every score, which softmax takes away again: it
  // is there for counts and files, nothing is computed with it and it stays as it is.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const EncoderConfig& config,
                          const ConvolutionBlockShape& shape, const std::string& block);
  ConvolutionBlock(const ParameterMap& parameters, const std::string& prefix, const EncoderConfig& config,
                   const ConvolutionBlockShape& shape, const ConvolutionBlockPlace& place);

  // [T, H] → [T, H]. signal: PositionSignal of the rows. `replay` is context.Replay() where context.recompute_layers,
  // else not looked at.
  torch::Tensor operator()(const torch::Tensor& x, const torch::Tensor& signal, const ForwardContext& context,
                           const ForwardContext& replay) const;
  // The pairs of a reversible block in one forward. `context` must live until the forward is done; the rest is copied.
  std::vector<ReversibleLayer> Pairs(const torch::Tensor& signal, const ForwardContext& context,
                                     const ForwardContext& replay) const;

 private:
  // Copied into what a backward calls again.
  struct Sublayer {
    LayerNorm norm;
    std::function<torch::Tensor(const torch::Tensor& x, const ForwardContext& context)> function;  // f
    std::vector<torch::Tensor> parameters;
    uint32_t number;       // among those of a forward
    double input_dropout;  // behind the LayerNorm
    double layer_dropout;  // p_l

    // What it adds to x; undefined: nothing.
    torch::Tensor Added(const torch::Tensor& x, const ForwardContext& context) const;
  };
  class Builder;
  static torch::Tensor Run(const std::vector<Sublayer>& sublayers, const torch::Tensor& x, const torch::Tensor& signal,
                           const ForwardContext& context);
  static RowFunction Half(const Sublayer& sublayer, const torch::Tensor& before, const torch::Tensor& beside,
                          const ForwardContext& context, const ForwardContext& replay);
  std::vector<Sublayer> sublayers_;
};

}  // namespace lshformer
