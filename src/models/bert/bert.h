// BERT with the heads of Task. Architecture and tensor names: HF's modeling_bert.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/heads.h"
#include "models/model.h"
#include "nn/embeddings.h"
#include "nn/encoder.h"

namespace lshformer {

// Every parameter in file order, tied ones once. A pure function of the config: nothing is allocated.
std::vector<ParameterSpec> BertParameters(const ModelConfig& config, Task task);
// A reversible layer's LayerNorms are not where an ordinary one's are, and have other names.
EncoderLayerNames BertLayerNames(int64_t layer, bool reversible);

class BertModel final : public Model {
 public:
  BertModel(ModelConfig config, Task task, const ParameterMap& parameters);
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return named_; }

 private:
  ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) override;
  std::vector<std::pair<std::string, torch::Tensor>> named_;
  Embeddings embeddings_;
  Encoder encoder_;
  EncoderHeads heads_;
};

}  // namespace lshformer
