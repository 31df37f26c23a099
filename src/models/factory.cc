// Models from configs and folders.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "data/masking.h"
#include "models/attended_padding.h"
#include "models/model.h"
#include "models/weights.h"

namespace lshformer {
namespace {

const char* ArchitectureOf(const Family& family, Task task) {
  for (const Head& head : family.heads)
    if (head.task == task) return head.architecture;
  std::vector<std::string> names;
  for (const Head& head : family.heads) names.emplace_back(head.architecture);
  Fail("a model of type \"{}\" has no head for this task, only {}", family.model_type, fmt::join(names, ", "));
}

// Only what predicts words has a decoder.
void RequireTiedDecoder(const ModelConfig& config, Task task) {
  if (task != Task::kMaskedLm && task != Task::kPretraining) return;
  if (HasValue(config.other, "tie_word_embeddings") && !GetBool(config.other, "tie_word_embeddings", "config.json"))
    Fail(
        "config.json: \"tie_word_embeddings\": expected true, got false: models whose decoder has weights of its own "
        "are not read");
}

ModelPtr Build(const Family& family, ModelConfig config, Task task, const ParameterMap& parameters) {
  RequireTiedDecoder(config, task);
  config.architectures = {ArchitectureOf(family, task)};
  return family.build(std::move(config), task, parameters);
}

std::string ArchitectureOf(const Model& model) {
  const auto& architectures = model.config().architectures;
  return architectures.empty() ? "" : architectures.front();
}

}  // namespace

std::optional<Task> FindTask(const ModelConfig& config) {
  const std::span<const Head> heads = FamilyOf(config).heads;
  for (const std::string& name : config.architectures)
    for (const Head& head : heads)
      if (name == head.architecture) return head.task;
  // A name of another family's: a "model_type" that was changed. The weights tell what does not fit.
  for (const std::string& name : config.architectures)
    for (const Family* other : Families())
      for (const Head& head : other->heads)
        for (const Head& own : heads)
          if (name == head.architecture && own.task == head.task) return own.task;
  return config.architectures.empty() ? std::optional(Task::kEncoder) : std::nullopt;
}

Task TaskFromArchitectures(const ModelConfig& config, std::string_view where) {
  if (const std::optional<Task> task = FindTask(config)) return *task;
  std::string names;
  const std::span<const Head> heads = FamilyOf(config).heads;
  for (const Head& head : heads)
    names += (names.empty() ? "" : &head == &heads.back() ? " or " : ", ") + std::string(head.architecture);
  Fail("{}: architectures names \"{}\", expected {}", where, config.architectures.front(), names);
}

ModelPtr CreateModel(const ModelConfig& config, Task task, uint64_t seed) {
  ValidateModelConfig(config, "config.json");
  const Family& family = FamilyOf(config);
  ParameterMap parameters;
  for (const ParameterSpec& spec : family.parameters(config, task))
    parameters[spec.name] = DrawParameter(spec, config, seed);
  return Build(family, config, task, parameters);
}

ModelPtr LoadModel(const std::string& folder, Task task, uint64_t seed, bool require_head,
                   const std::function<void(ModelConfig&)>& adjust, WeightPlace place, bool ignore_mismatched_sizes) {
  ModelConfig config = ReadModelConfig(folder + "/config.json");
  if (adjust) adjust(config);
  ValidateModelConfig(config, folder + "/config.json");
  const ParameterMap parameters =
      LoadParameters(folder, config, task, seed, require_head, place, ignore_mismatched_sizes);
  const Family& family = FamilyOf(config);
  return Build(family, std::move(config), task, parameters);
}

ModelPtr CopyOf(const Model& model) {
  ParameterMap parameters;
  for (const auto& [name, tensor] : model.NamedParameters())
    parameters[name] = tensor.detach().clone().requires_grad_(tensor.requires_grad());
  return Build(FamilyOf(model.config()), model.config(), model.task(), parameters);
}

ModelPtr WithAttention(const Model& model, std::vector<AttentionSpec> attention,
                       const std::vector<std::pair<std::string, torch::Tensor>>& directions) {
  ModelConfig config = model.config();
  config.attention = std::move(attention);
  ValidateModelConfig(config, "config.json");
  ParameterMap parameters;
  for (const auto& [name, tensor] : model.NamedParameters()) parameters[name] = tensor;
  for (const auto& [name, tensor] : directions) parameters[name] = tensor;
  const Family& family = FamilyOf(config);
  return Build(family, std::move(config), model.task(), parameters);
}

void RedrawParameters(Model& model, const std::vector<std::string>& parts, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const std::vector<ParameterSpec> specs = FamilyOf(model.config()).parameters(model.config(), model.task());
  const auto parameters = model.NamedParameters();
  for (const std::string& part : parts) {
    size_t found = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (part.empty() || specs[i].name.find(part) == std::string::npos) continue;
      parameters[i].second.copy_(DrawParameter(specs[i], model.config(), seed));
      ++found;
    }
    if (found == 0) Fail("no parameter has \"{}\" in its name; one is \"{}\"", Shown(part), specs.back().name);
  }
}

ModelOutput Model::Forward(const PackedBatch& batch, const ForwardOptions& options) {
  if (look_) std::call_once(looked_, [&] { look_(batch); });
  if (config_.attended_padding == 0) return Run(batch, options);
  CheckStreams(batch, FamilyOf(config_));
  const PackedBatch filled = FilledUp(batch, config_);
  ModelOutput output = Run(filled, options);
  CutPadding(batch, filled, output);
  return output;
}

ForwardContext Model::ContextOf(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const {
  ForwardContext context(batch.tokens, batch.sequence_ids);
  context.train = options.train;
  context.seed = options.seed;
  context.step = static_cast<uint64_t>(options.step);
  context.dropout_step = context.step | static_cast<uint64_t>(options.micro_step) << 40;
  context.recompute_layers = options.gradient_checkpointing;
  context.counts = options.counts;
  context.attention_hook = options.attention_hook;
  context.stop = options.stop;
  context.precision = precision_;
  if (options.attentions) context.attentions = &output.attentions;
  if (shares_tokens_)
    context.split = SplitOf(others_, static_cast<int>(config_.num_attention_heads), batch.tokens.size());
  return context;
}

void Model::ShareTokens(TokenExchange* others) {
  constexpr const char* kOption = "sequence_parallel";
  if (!FamilyOf(config_).encoder_layers)
    FailOption(kOption, "a model of type \"{}\" has no layers of self-attention", config_.model_type);
  if (others != nullptr && config_.num_attention_heads % others->size() != 0)
    FailOption(kOption,
               "{} processes cannot share the model's {} heads (num_attention_heads): expected a divisor of {}",
               others->size(), config_.num_attention_heads, config_.num_attention_heads);
  shares_tokens_ = true;
  others_ = others;
}

void SaveModel(const Model& model, const std::string& folder, DType dtype) {
  MakeFolder(folder);
  SaveParameters(model, folder + "/model.safetensors", dtype);
  Json config = ToJson(model.config());
  config["torch_dtype"] = dtype == DType::kF16 ? "float16" : dtype == DType::kBF16 ? "bfloat16" : "float32";
  WriteFileAtomically(folder + "/config.json", config.dump(2) + "\n");
}

std::vector<std::pair<std::string, int64_t>> ParametersByBlock(const ModelConfig& config, Task task) {
  std::vector<std::pair<std::string, int64_t>> blocks;
  for (const ParameterSpec& spec : FamilyOf(config).parameters(config, task)) {
    if (spec.block.empty()) continue;
    if (blocks.empty() || blocks.back().first != spec.block) blocks.emplace_back(spec.block, 0);
    blocks.back().second += spec.elements();
  }
  return blocks;
}

std::vector<ParameterRole> Roles(const Model& model) {
  std::vector<ParameterRole> roles;
  for (const ParameterSpec& spec : FamilyOf(model.config()).parameters(model.config(), model.task()))
    roles.push_back(spec.role);
  return roles;
}

std::string FileWeightName(const Model& model, std::string_view name) {
  return FileWeightName(FamilyOf(model.config()).weight_names, name, ArchitectureOf(model));
}

std::vector<int64_t> LossItems(Task task, const Labels& labels) {
  const int64_t tokens =
      std::count_if(labels.tokens.begin(), labels.tokens.end(), [](int32_t label) { return label != kIgnoredLabel; });
  const auto classes = static_cast<int64_t>(labels.classes.size() + labels.values.size());  // of sequences or examples
  switch (task) {
    case Task::kEncoder:
      return {};
    case Task::kMaskedLm:
      return {tokens};
    case Task::kPretraining:
      return {tokens, classes};
    case Task::kSequenceClassification:
      return {labels.flags.empty() ? classes : static_cast<int64_t>(labels.flags.size())};
    case Task::kMultipleChoice:
      return {classes};
    case Task::kQuestionAnswering:
      return {static_cast<int64_t>(labels.start_positions.size())};
  }
  Fail("unknown task {}", static_cast<int>(task));
}

void CheckStreams(const PackedBatch& batch, const Family& family) {
  if (batch.sequences() == 0) Fail("the batch has no sequence");
  if (batch.further_streams.size() + 1 != family.streams.size())
    Fail("the batch has {} streams of ids, this model reads {}: {}", batch.further_streams.size() + 1,
         family.streams.size(), fmt::join(family.streams, ", "));
  for (size_t i = 0; i < family.streams.size(); ++i) {
    const TokenStream& stream = i == 0 ? batch.tokens : batch.further_streams[i - 1];
    const auto size = static_cast<size_t>(stream.size());
    if (stream.ids.size() != size || stream.type_ids.size() != size || stream.positions.size() != size)
      Fail("the batch has {} ids, {} types and {} positions, but cu_seqlens ends at {}", stream.ids.size(),
           stream.type_ids.size(), stream.positions.size(), size);
  }
}

std::vector<std::pair<std::string, int64_t>> ParametersByBlock(const Model& model) {
  return ParametersByBlock(model.config(), model.task());
}

}  // namespace lshformer
