// The layers of an encoder one after another, ordinary or reversible as "reversible" says.
//
// Layers that are given the same names share their parameters and the packed forms of them; the gradient of such a
// parameter is the sum over its uses. Dropout, and hash planes, are each layer's own.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "nn/encoder_layer.h"
#include "nn/reversible_layer.h"

namespace lshformer {

struct EncoderNames {
  std::vector<EncoderLayerNames> layers;  // EncoderConfig::visits(), in the order in which a token meets them
  std::string norm;                       // the LayerNorm behind the last layer where norms stand before or layers are
                                          // reversible, and its block
  std::string norm_block;
};

class Encoder {
 public:
  // A parameter that several layers share once, with the number of its uses.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderNames& names, const EncoderConfig& config);
  Encoder(const ParameterMap& parameters, const EncoderNames& names, const EncoderConfig& config);
  // [T, H] → [T, H], or of these tokens alone, ascending, where there are some: [tokens, H]. Then an ordinary last
  // layer computes no others behind its attention. hidden_states, where given, gets the embeddings and the states
  // behind each of EncoderConfig::visits() layers, the last one's as the result is, behind a norm; reversible: the mean
  // of the two streams, of which the result is the LayerNorm.
  // Of several processes (context.split) all have the embeddings, those of their own tokens alone where
  // ForwardContext::OwnEmbeddingsAlone, and get the result; in between each has its own tokens. There are no
  // hidden_states then, and no gradients where the feed-forward is computed in pieces.
  torch::Tensor operator()(torch::Tensor embeddings, const ForwardContext& context,
                           std::vector<torch::Tensor>* hidden_states, const std::vector<int64_t>& tokens = {}) const;

 private:
  // Of these tokens; rows: undefined stands for all of them.
  torch::Tensor Run(torch::Tensor hidden, const ForwardContext& context, std::vector<torch::Tensor>* hidden_states,
                    const torch::Tensor& rows) const;
  torch::Tensor RunReversibly(const torch::Tensor& embeddings, const ForwardContext& context,
                              std::vector<torch::Tensor>* hidden_states) const;
  std::vector<EncoderLayer> layers_;                       // or, of a reversible encoder,
  std::vector<ReversibleEncoderLayer> reversible_layers_;  // these,
  std::optional<LayerNorm> norm_;                          // behind the last
  bool in_pieces_;                                         // the feed-forward
};

}  // namespace lshformer
