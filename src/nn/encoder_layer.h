// The encoder layer of BERT and its kin, made as EncoderConfig::shape says, with whatever names its parameters have.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/encoder_config.h"
#include "nn/forward_context.h"
#include "nn/layer_norm.h"
#include "nn/parameters.h"
#include "nn/self_attention.h"

namespace lshformer {

// Where the parameters of a layer are: prefixes of ".weight" and ".bias", in full, and the blocks that they count to.
struct EncoderLayerNames {
  std::string query = "", key = "", value = "";
  std::string query_key_value = "";  // in place of the three: one map, [3 · H, H]
  std::string attention_output = "";
  std::string attention_norm = "";  // "": there is none (a first layer whose norms stand before, behind embeddings')
  std::string gate = "";            // of a gated W_1 that is two maps, a's; `inner` is then b's
  std::string inner = "", outer = "", feed_forward_norm = "";  // W_1, W_2 and their LayerNorm
  std::string attention_block = "", feed_forward_block = "";
};

// Which layer of an encoder it is: `visit` tells its dropout and its hashing from those of the others, `layer` is the
// one of the config whose attention it has.
struct EncoderLayerPlace {
  uint32_t visit;
  int64_t layer;
  std::shared_ptr<const RotaryTable> rotary = nullptr;  // of its queries and keys; nullptr: they do not turn
};

// W_o · attention(x) + b_o.
class EncoderAttention {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                          const EncoderConfig& config);
  EncoderAttention(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config,
                   const EncoderLayerPlace& place);
  // [T, H] → [T, H], or of `rows` alone where they are defined, [R] → [R, H]: every token is attended to all the same.
  torch::Tensor operator()(torch::Tensor hidden, const ForwardContext& context, const torch::Tensor& rows = {}) const;

 private:
  torch::Tensor Slices(const torch::Tensor& hidden, const ForwardContext& context) const;  // [T, slices · H]
  // Attention of all tokens, [T, H]. Of several processes that share them here, and nowhere else, tokens change places
  // with heads, and back: own tokens in, own tokens out.
  torch::Tensor Attended(torch::Tensor hidden, const ForwardContext& context) const;
  LayerAttention attention_;
  bool drops_keys_;  // of one map for all three, where attention shares keys
  Linear query_key_value_, attention_output_;
};

// W_2 · f(W_1 · x + b_1) + b_2, or gated W_2 · dropout(f(a) · b) + b_2 with [a b] = W_1 · x + b_1. A row looks at no
// other.
class EncoderFeedForward {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                          const EncoderConfig& config);
  EncoderFeedForward(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config);
  // [n, H] → [n, H]
  torch::Tensor operator()(const torch::Tensor& x, Precision precision, const DropoutSpec& inner_dropout = {},
                           const TokenSplitPtr& split = nullptr) const;
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

 private:
  UnaryFunction function_;
  bool gated_;
  Linear inner_, outer_;
  std::vector<torch::Tensor> parameters_;
};

//   a = LayerNorm(x + dropout(W_o · attention(x) + b_o)),   y = LayerNorm(a + dropout(feed-forward(a)))
//
// or, with NormPlace::kBefore,
//
//   a = x + dropout(W_o · attention(LayerNorm(x)) + b_o),   y = a + dropout(feed-forward(LayerNorm(a)))
//
// Without EncoderConfig::attention_residual a = dropout(W_o · attention(x) + b_o); that LayerNorm's parameters stay as
// they are.
class EncoderLayer {
 public:
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderLayerNames& names,
                          const EncoderConfig& config);
  EncoderLayer(const ParameterMap& parameters, const EncoderLayerNames& names, const EncoderConfig& config,
               const EncoderLayerPlace& place);
  // [T, H] → [T, H], or of `rows` alone where they are defined, [R] → [R, H], each what it is among all. `replay` is
  // context.Replay() where context.recompute_layers, else not looked at.
  torch::Tensor operator()(const torch::Tensor& hidden, const ForwardContext& context, const ForwardContext& replay,
                           const torch::Tensor& rows) const;

 private:
  torch::Tensor Run(const torch::Tensor& hidden, const ForwardContext& context, const torch::Tensor& rows) const;
  torch::Tensor NormsAfter(const torch::Tensor& hidden, const ForwardContext& context, const torch::Tensor& rows) const;
  torch::Tensor NormsBefore(const torch::Tensor& hidden, const ForwardContext& context,
                            const torch::Tensor& rows) const;
  // In pieces of chunk_ tokens. identities, split: of the rows of x.
  torch::Tensor FeedForward(const torch::Tensor& x, const ForwardContext& context,
                            const std::shared_ptr<const RowIdentities>& identities, const TokenSplitPtr& split) const;
  uint32_t layer_;
  int64_t chunk_;
  bool attention_residual_;
  NormPlace norm_place_;
  double attention_dropout_, inner_dropout_, hidden_dropout_;
  EncoderAttention attention_;
  EncoderFeedForward feed_forward_;
  std::optional<LayerNorm> attention_norm_;
  LayerNorm feed_forward_norm_;
  std::vector<torch::Tensor> parameters_;
};

// Dropout is drawn by who a row is, so a piece of `rows` rows from `begin` on needs its part of the identities.
std::shared_ptr<const RowIdentities> PieceOf(const std::shared_ptr<const RowIdentities>& all, int64_t begin,
                                             int64_t rows);

}  // namespace lshformer
