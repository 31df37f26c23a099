// Attention of one layer: from its queries, keys and values to what it makes of them, with the layer's own hash planes
// and dropout. The maps around it are the layer's.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "nn/encoder_config.h"
#include "nn/forward_context.h"
#include "nn/parameters.h"
#include "ops/rotary.h"

namespace lshformer {

struct AttentionPlace {
  uint32_t visit;               // tells its hashing and dropout from those of the others of a forward
  int64_t layer;                // of the config
  std::string output_map = "";  // the map behind it, by its parameters' prefix; "": none
  std::shared_ptr<const RotaryTable> rotary = nullptr;  // by which queries and keys turn; nullptr: they do not
};

inline constexpr const char* kDirectionsPrefix = "lshformer.attention.";
// The tensor of a visit's stored directions; part: "key" or "query".
std::string DirectionsName(int64_t visit, const char* part);

class LayerAttention {
 public:
  // Directions of clustered attention that are stored: "lshformer.attention.<visit>.key_directions" [heads, head_dim,
  // depth] and "….query_directions", for the visits whose spec (of the config's layer layer_of(visit)) asks for them.
  template <class LayerOf>
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const EncoderConfig& config, int64_t visits,
                          const LayerOf& layer_of) {
    for (int64_t visit = 0; visit < visits; ++visit) AppendDirections(specs, config, visit, layer_of(visit));
  }
  LayerAttention(const ParameterMap& parameters, const EncoderConfig& config, AttentionPlace place);
  // [T, slices · H] → [T, H]; the slices side by side are query, key and value, or query and value (SlicesOf). Of
  // several processes that share the tokens these are this one's heads (ops/token_split.h), in float32. Recorded
  // and counted as `context` says. type: of the result, kBFloat16 where RowType says so; a hook's is float32. With
  // rotary positions queries and keys turn first, without gradients where they lie.
  torch::Tensor operator()(torch::Tensor qkv, const ForwardContext& context,
                           torch::ScalarType type = torch::kFloat32) const;
  int slices() const { return SlicesOf(*spec_); }
  // What the map before it should write qkv in: OperandType (ops/attention.h), or float32 where more than products
  // reads it, as the turning of rotary positions, which rounds what it turned.
  torch::ScalarType InputType(const ForwardContext& context) const;

 private:
  // What attention is told, but for what a forward says of it: of all heads, or of this process's own.
  std::shared_ptr<AttentionOptions> OptionsOf(const TokenSplit* split) const;
  torch::ScalarType OperandType(const ForwardContext& context) const;  // of what the operator reads
  static void AppendDirections(std::vector<ParameterSpec>& specs, const EncoderConfig& config, int64_t visit,
                               int64_t layer);
  AttentionPlace place_;
  int heads_;
  std::shared_ptr<const AttentionSpec> spec_;
  StoredDirections directions_;
  torch::Tensor output_map_;
  double dropout_;
  std::shared_ptr<DrawnProjections> drawn_ = std::make_shared<DrawnProjections>();  // shared by copies of the layer
};

}  // namespace lshformer
