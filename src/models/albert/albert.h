// ALBERT (arXiv:1909.11942) with the heads of Task. Architecture and tensor names: HF's modeling_albert.
//
//   x = dropout(LayerNorm(word + position + type)) [T, E],   h_0 = W_m · x + b_m [T, H],   h_{i+1} = layers of i's
//   group
//
// Layers are BERT's. As in the published code, and not as in HF's, dropout also stands behind the feed-forward.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/heads.h"
#include "models/model.h"
#include "nn/embeddings.h"
#include "nn/encoder.h"

namespace lshformer {

// Every parameter once. A pure function of the config: nothing is allocated.
std::vector<ParameterSpec> AlbertParameters(const ModelConfig& config, Task task);

class AlbertModel final : public Model {
 public:
  AlbertModel(ModelConfig config, Task task, const ParameterMap& parameters);
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return named_; }

 private:
  ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) override;
  std::vector<std::pair<std::string, torch::Tensor>> named_;
  Embeddings embeddings_;
  std::optional<Linear> embedding_map_;
  Encoder encoder_;
  EncoderHeads heads_;
};

}  // namespace lshformer
