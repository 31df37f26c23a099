// BERT with the heads of Task. Architecture and tensor names: HF's modeling_bert.
#pragma once
#include <memory>
#include <optional>

#include "models/model.h"
#include "nn/embeddings.h"
#include "nn/encoder_layer.h"
#include "nn/reversible_layer.h"

namespace lshformer {

// Every parameter in file order, tied ones once. A pure function of the config: nothing is allocated.
std::vector<ParameterSpec> BertParameters(const ModelConfig& config, Task task);
// A reversible layer's LayerNorms are not where an ordinary one's are, and have other names.
EncoderLayerNames BertLayerNames(int64_t layer, bool reversible);

class BertModel final : public Model {
 public:
  BertModel(ModelConfig config, Task task, const ParameterMap& parameters);
  ModelOutput Forward(const PackedBatch& batch, const ForwardOptions& options) override;
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return named_; }

 private:
  void CheckBatch(const PackedBatch& batch) const;
  torch::Tensor Encode(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output,
                       bool record) const;  // [T, H]
  torch::Tensor EncodeReversibly(const torch::Tensor& embeddings, const ForwardContext& context, ModelOutput& output,
                                 bool record) const;                                // [T, H]
  torch::Tensor Pool(const PackedBatch& batch, const torch::Tensor& hidden) const;  // [B, H]
  torch::Tensor Transform(const torch::Tensor& hidden) const;                       // [n, H]
  // int8's error would reorder the words at the top, and the decoder sees few rows.
  Precision DecoderPrecision() const { return precision_ == Precision::kInt8 ? Precision::kFloat32 : precision_; }
  void RunMaskedLm(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const;
  void RunPretraining(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const;
  void RunClassification(const PackedBatch& batch, const ForwardContext& context, ModelOutput& output) const;
  void RunQuestionAnswering(const PackedBatch& batch, ModelOutput& output) const;

  std::vector<std::pair<std::string, torch::Tensor>> named_;
  Embeddings embeddings_;
  std::vector<EncoderLayer> layers_;                       // or, of a reversible model,
  std::vector<ReversibleEncoderLayer> reversible_layers_;  // these,
  std::optional<LayerNorm> encoder_norm_;                  // with this on the mean of the two streams behind the last
  std::optional<Linear> pooler_, transform_, decoder_, seq_relationship_, classifier_, qa_outputs_;
  std::optional<LayerNorm> transform_norm_;
  torch::Tensor decoder_bias_;
};

}  // namespace lshformer
