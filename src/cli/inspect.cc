// lshformer inspect: the raw numbers of a model on a batch.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/report_error.h"
#include "io/safetensors.h"
#include "io/weight_names.h"
#include "jobs/inspect_batch.h"
#include "models/model.h"

namespace lshformer::cli {
namespace {

struct InspectFlags {
  std::string model, task, input, output;
  bool hidden_states = false, attentions = false, gradients = false;
  AttentionChanges attention;
};

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

Task ChosenTask(const InspectFlags& flags) {
  if (flags.task == "fill-mask") return Task::kMaskedLm;
  if (flags.task == "pretraining") return Task::kPretraining;
  if (flags.task == "text-classification") return Task::kSequenceClassification;
  if (flags.task == "question-answering") return Task::kQuestionAnswering;
  const std::string path = flags.model + "/config.json";
  return TaskFromArchitectures(ReadModelConfig(path), path);
}

LabelKind Labels(Task task, const ModelConfig& config) {
  if (task == Task::kEncoder) return LabelKind::kNone;
  if (task == Task::kMaskedLm) return LabelKind::kToken;
  if (task == Task::kPretraining) return LabelKind::kTokenAndNext;
  if (task == Task::kQuestionAnswering) return LabelKind::kSpan;
  return config.regression() ? LabelKind::kValue : LabelKind::kClass;
}

void AddGradients(const Model& model, const torch::Tensor& loss, OutputTensors& output) {
  loss.backward();
  const auto& architectures = model.config().architectures;
  for (const auto& [name, parameter] : model.NamedParameters()) {
    torch::Tensor gradient = parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
    if (gradient.is_sparse()) gradient = gradient.to_dense();  // the word table's, where no decoder shares it
    output.Add("gradients." + FileWeightName(name, architectures.empty() ? "" : architectures.front()), gradient);
  }
}

// All lines are one batch, whose tensors are all written: too much of a file is told by its size.
ModelOutput ForwardOrSay(Model& model, const PackedBatch& batch, const ForwardOptions& options,
                         const InspectFlags& flags) {
  const auto fail = [&] {
    const double logits = static_cast<double>(batch.tokens()) * static_cast<double>(model.config().vocab_size) * 4e-9;
    Fail("{}: out of memory with all {} lines ({} tokens{}) at once; give fewer", Shown(flags.input, 120),
         batch.sequences(), batch.tokens(),
         model.task() == Task::kMaskedLm || model.task() == Task::kPretraining
             ? fmt::format(", whose logits alone take {:.1f} GB", logits)
             : "");
  };
  try {
    return model.Forward(batch, options);
  } catch (const std::exception& error) {
    if (IsOutOfMemory(error)) fail();
    throw;
  }
}

void Inspect(const InspectFlags& flags) {
  const Task task = ChosenTask(flags);
  const ModelPtr model = LoadModel(flags.model, task, 0, /*require_head=*/true,
                                   [&](ModelConfig& config) { flags.attention.Apply(config.attention); });
  const auto [batch, labelled] = ReadInspectBatch(flags.input, model->config(), Labels(task, model->config()),
                                                  [&] { return Tokenizer::Load(flags.model); });
  if (flags.gradients && !labelled) FailUsage("--gradients: needs labels, no line of {} has any", flags.input);
  ForwardOptions options;
  options.all_logits = true;
  options.hidden_states = flags.hidden_states;
  options.attentions = flags.attentions;
  const torch::AutoGradMode grad_mode(flags.gradients);
  const ModelOutput result = ForwardOrSay(*model, batch, options, flags);
  ThrowIfStopped("inspecting");
  OutputTensors output;
  output.Add("cu_seqlens", DType::kI32, {batch.sequences() + 1}, batch.cu_seqlens.data(),
             batch.cu_seqlens.size() * sizeof(int32_t));
  output.Add("last_hidden_state", result.last_hidden_state);
  output.Add("pooler_output", result.pooler_output);
  for (size_t layer = 0; layer < result.hidden_states.size(); ++layer)
    output.Add(fmt::format("hidden_states.{}", layer), result.hidden_states[layer]);
  for (size_t layer = 0; layer < result.attentions.size(); ++layer)
    for (size_t sequence = 0; sequence < result.attentions[layer].size(); ++sequence)
      output.Add(fmt::format("attentions.{}.{}", layer, sequence), result.attentions[layer][sequence]);
  output.Add("logits", result.logits);
  output.Add("seq_relationship_logits", result.seq_relationship_logits);
  output.Add("start_logits", result.start_logits);
  output.Add("end_logits", result.end_logits);
  output.Add("loss", result.loss);
  if (flags.gradients) AddGradients(*model, result.loss, output);
  output.Write(flags.output);
}

}  // namespace

void AddInspect(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("inspect", "raw numbers of a model: hidden states, attention maps, gradients");
  auto flags = std::make_shared<InspectFlags>();
  const char* group = "Model";
  command->add_option("--model_name_or_path", flags->model, "checkpoint folder")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command->add_option("--task", flags->task, "which head; default: from the config's architectures")
      ->check(OneOf({"fill-mask", "pretraining", "text-classification", "question-answering"}))
      ->group(group);
  group = "Input and output";
  command->add_option("--input", flags->input, "JSONL: input_ids or text, and labels; - is stdin")
      ->required()
      ->type_name("FILE")
      ->group(group);
  command->add_option("--output", flags->output, "safetensors file; - is stdout")
      ->required()
      ->type_name("FILE")
      ->group(group);
  group = "What to write beside last_hidden_state, pooler_output, logits and loss";
  command->add_flag("--hidden_states", flags->hidden_states, "of every layer, embeddings first")->group(group);
  command->add_flag("--attentions", flags->attentions, "attention maps of every layer and line")->group(group);
  command->add_flag("--gradients", flags->gradients, "of the loss by every parameter; needs labels")->group(group);
  AddAttentionFlags(*command, flags->attention);
  command->callback([flags] { Inspect(*flags); });
}

}  // namespace lshformer::cli
