// Models that are an encoder of tokens and one head: embeddings, layers, head, each made as a form says. A family of
// such models is a function from its config to the form (and its keys, and the names in its files).
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

struct EncoderModelForm {
  EmbeddingForm embeddings{};
  std::string embedding_map = "";  // prefix of a map from the embeddings' width to hidden_size; "": none
  EncoderNames encoder{};
  HeadForm heads{};
};

// Embeddings with the sizes of the config and the names that BERT's have below `prefix`.
EmbeddingForm TokenEmbeddings(const std::string& prefix, const ModelConfig& config);

// Every parameter in file order, tied ones once. A pure function: nothing is allocated.
std::vector<ParameterSpec> ParametersOf(const EncoderModelForm& form, const ModelConfig& config, Task task);

class EncoderModel final : public Model {
 public:
  EncoderModel(ModelConfig config, Task task, const EncoderModelForm& form, const ParameterMap& parameters);
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return named_; }

 private:
  ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) override;
  std::vector<std::pair<std::string, torch::Tensor>> named_;
  Embeddings embeddings_;
  std::optional<Linear> embedding_map_;
  Encoder encoder_;
  EncoderHeads heads_;
};

// A row's Family::parameters and Family::build, of the family's function from config and task to the form.
template <EncoderModelForm (*Form)(const ModelConfig&, Task)>
std::vector<ParameterSpec> EncoderParameters(const ModelConfig& config, Task task) {
  return ParametersOf(Form(config, task), config, task);
}
template <EncoderModelForm (*Form)(const ModelConfig&, Task)>
ModelPtr BuildEncoder(ModelConfig config, Task task, const ParameterMap& parameters) {
  const EncoderModelForm form = Form(config, task);
  return std::make_shared<EncoderModel>(std::move(config), task, form, parameters);
}

}  // namespace lshformer
