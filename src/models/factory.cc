// Models from configs and folders.
#include "base/error.h"
#include "base/files.h"
#include "models/bert.h"
#include "models/weights.h"

namespace lshformer {
namespace {

const char* Architecture(Task task) {
  switch (task) {
    case Task::kEncoder:
      return "BertModel";
    case Task::kMaskedLm:
      return "BertForMaskedLM";
    case Task::kPretraining:
      return "BertForPreTraining";
    case Task::kSequenceClassification:
      return "BertForSequenceClassification";
    case Task::kQuestionAnswering:
      return "BertForQuestionAnswering";
  }
  Fail("unknown task {}", static_cast<int>(task));
}

ModelPtr Build(ModelConfig config, Task task, const ParameterMap& parameters) {
  config.architectures = {Architecture(task)};
  return std::make_shared<BertModel>(std::move(config), task, parameters);
}

}  // namespace

std::optional<Task> FindTask(const ModelConfig& config) {
  for (const std::string& name : config.architectures)
    for (const Task task :
         {Task::kEncoder, Task::kMaskedLm, Task::kPretraining, Task::kSequenceClassification, Task::kQuestionAnswering})
      if (name == Architecture(task)) return task;
  return config.architectures.empty() ? std::optional(Task::kEncoder) : std::nullopt;
}

Task TaskFromArchitectures(const ModelConfig& config, std::string_view where) {
  if (const std::optional<Task> task = FindTask(config)) return *task;
  Fail(
      "{}: architectures names \"{}\", expected BertModel, BertForMaskedLM, BertForPreTraining, "
      "BertForSequenceClassification or BertForQuestionAnswering",
      where, config.architectures.front());
}

ModelPtr CreateModel(const ModelConfig& config, Task task, uint64_t seed) {
  ValidateModelConfig(config, "config.json");
  ParameterMap parameters;
  for (const ParameterSpec& spec : BertParameters(config, task))
    parameters[spec.name] = DrawParameter(spec, config, seed);
  return Build(config, task, parameters);
}

ModelPtr LoadModel(const std::string& folder, Task task, uint64_t seed, bool require_head,
                   const std::function<void(ModelConfig&)>& adjust, WeightPlace place) {
  ModelConfig config = ReadModelConfig(folder + "/config.json");
  if (adjust) adjust(config);
  ValidateModelConfig(config, folder + "/config.json");
  const ParameterMap parameters =
      LoadParameters(folder, BertParameters(config, task), config, seed, require_head, place);
  return Build(std::move(config), task, parameters);
}

void SaveModel(const Model& model, const std::string& folder, DType dtype) {
  MakeFolder(folder);
  SaveParameters(model.NamedParameters(), folder + "/model.safetensors",
                 model.config().architectures.empty() ? "" : model.config().architectures.front(), dtype);
  Json config = ToJson(model.config());
  config["torch_dtype"] = dtype == DType::kF16 ? "float16" : dtype == DType::kBF16 ? "bfloat16" : "float32";
  WriteFileAtomically(folder + "/config.json", config.dump(2) + "\n");
}

std::vector<std::pair<std::string, int64_t>> ParametersByBlock(const ModelConfig& config, Task task) {
  std::vector<std::pair<std::string, int64_t>> blocks;
  for (const ParameterSpec& spec : BertParameters(config, task)) {
    if (blocks.empty() || blocks.back().first != spec.block) blocks.emplace_back(spec.block, 0);
    blocks.back().second += spec.elements();
  }
  return blocks;
}

std::vector<std::pair<std::string, int64_t>> ParametersByBlock(const Model& model) {
  return ParametersByBlock(model.config(), model.task());
}

}  // namespace lshformer
