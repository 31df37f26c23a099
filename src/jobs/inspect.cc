#include "jobs/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/logging.h"
#include "base/signals.h"
#include "base/writing.h"
#include "data/file_kind.h"
#include "io/safetensors.h"
#include "io/weight_files.h"
#include "jobs/inspect_batch.h"
#include "jobs/model_source.h"
#include "models/model.h"
#include "ops/memory.h"

namespace lshformer {
namespace {

// Tensors to write, kept alive until they are.
class OutputTensors {
 public:
  void Add(const std::string& name, const torch::Tensor& tensor) {
    if (!tensor.defined()) return;
    const torch::Tensor values = tensor.detach().to(torch::kFloat32).contiguous();
    alive_.push_back(values);
    Add(name, DType::kF32, values.sizes().vec(), values.data_ptr(), values.nbytes());
  }
  void Add(const std::string& name, DType dtype, std::vector<int64_t> shape, const void* data, size_t bytes) {
    tensors_.push_back({name, {dtype, std::move(shape), {static_cast<const std::byte*>(data), bytes}}});
  }
  void Write(const std::string& path) const { WriteSafetensors(path, tensors_); }

 private:
  std::vector<torch::Tensor> alive_;
  std::vector<NamedTensor> tensors_;
};

LabelKind LabelKindOf(Task task, const ModelConfig& config) {
  if (task == Task::kEncoder) return LabelKind::kNone;
  if (task == Task::kMaskedLm) return LabelKind::kToken;
  if (task == Task::kPretraining) return LabelKind::kTokenAndNext;
  if (task == Task::kQuestionAnswering) return LabelKind::kSpan;
  if (task == Task::kMultipleChoice) return LabelKind::kChoice;
  if (config.multi_label()) return LabelKind::kFlags;
  return config.regression() ? LabelKind::kValue : LabelKind::kClass;
}

void AddGradients(const Model& model, const torch::Tensor& loss, OutputTensors& output) {
  loss.backward();
  for (const auto& [name, parameter] : model.NamedParameters()) {
    torch::Tensor gradient = parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
    if (gradient.is_sparse()) gradient = gradient.to_dense();  // the word table's, where no decoder shares it
    output.Add("gradients." + FileWeightName(model, name), gradient);
  }
}

// All lines are one batch, whose tensors are all written: too much of a file is told by its size.
ModelOutput ForwardOrSay(Model& model, const PackedBatch& batch, const ForwardOptions& forward,
                         const InspectOptions& options) {
  const auto fail = [&] {
    const double logits =
        static_cast<double>(batch.tokens.size()) * static_cast<double>(model.config().vocab_size) * 4e-9;
    Fail("{}: out of memory with all {} lines ({} tokens{}) at once; give fewer", Shown(options.input, 120),
         batch.examples(), batch.tokens.size(),
         model.task() == Task::kMaskedLm || model.task() == Task::kPretraining
             ? fmt::format(", whose logits alone take {:.1f} GB", logits)
             : "");
  };
  try {
    return model.Forward(batch, forward);
  } catch (const std::exception& error) {
    if (IsOutOfMemory(error)) fail();
    throw;
  }
}

// An encoder that was saved without its pooler has one that is drawn, which says nothing.
bool HasPooler(const std::string& folder) {
  const std::vector<std::string> names = WeightFiles(folder).names();
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.find("pooler.") != std::string::npos; });
}

}  // namespace

void RunInspect(const InspectOptions& options) {
  const HeldLog warnings;
  RefuseInputAsOutput("input", options.input, options.output);
  RefuseOtherKind(options.output, {"safetensors"}, "tensors (.safetensors)");
  RefuseModelFileAsOutput(options.model_name_or_path, options.output);
  const Task task = NamedTask(options.task, options.model_name_or_path);
  std::optional<AttentionChange> change;
  const ModelPtr model = LoadModel(
      options.model_name_or_path, task, 0, /*require_head=*/task != Task::kEncoder,
      [&](ModelConfig& config) { change = ChangeAttention(options.model_name_or_path, options.attention, config); });
  WarnOfAttention(*model, change);
  const auto [batch, labelled] = ReadInspectBatch(options.input, model->config(), LabelKindOf(task, model->config()),
                                                  [&] { return Tokenizer::Load(options.model_name_or_path); });
  if (options.gradients && !labelled) FailOption("gradients", "needs labels, no line of {} has any", options.input);
  ForwardOptions forward;
  forward.all_logits = true;
  forward.hidden_states = options.hidden_states;
  forward.attentions = options.attentions;
  forward.stop = &StopOnSignal();
  const torch::AutoGradMode grad_mode(options.gradients);
  const ModelOutput result = ForwardOrSay(*model, batch, forward, options);
  ThrowIfStopped("inspecting");
  OutputTensors output;
  output.Add("cu_seqlens", DType::kI32, {batch.sequences() + 1}, batch.tokens.cu_seqlens.data(),
             batch.tokens.cu_seqlens.size() * sizeof(int32_t));
  if (const std::vector<int32_t>& choices = batch.labels.cu_choices; !choices.empty())
    output.Add("cu_choices", DType::kI32, {static_cast<int64_t>(choices.size())}, choices.data(),
               choices.size() * sizeof(int32_t));
  output.Add("last_hidden_state", result.last_hidden_state);
  if (task != Task::kEncoder || HasPooler(options.model_name_or_path))
    output.Add("pooler_output", result.pooler_output);
  for (size_t layer = 0; layer < result.hidden_states.size(); ++layer)
    output.Add(fmt::format("hidden_states.{}", layer), result.hidden_states[layer]);
  for (size_t layer = 0; layer < result.attentions.size(); ++layer)
    for (size_t sequence = 0; sequence < result.attentions[layer].size(); ++sequence)
      output.Add(fmt::format("attentions.{}.{}", layer, sequence), result.attentions[layer][sequence]);
  output.Add("logits", result.logits);
  output.Add(std::string(FamilyOf(model->config()).sentence_pairs.logits), result.sentence_pair_logits);
  output.Add("start_logits", result.start_logits);
  output.Add("end_logits", result.end_logits);
  output.Add("no_answer_logits", result.no_answer_logits);
  output.Add("loss", result.loss);
  if (options.gradients) AddGradients(*model, result.loss, output);
  output.Write(options.output);
}

}  // namespace lshformer
