// An encoder with one head. The only door to the models: created here, loaded here, saved here.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/stop_token.h"
#include "data/answer_beam.h"
#include "data/batch.h"
#include "io/safetensors.h"
#include "kernels/counts.h"
#include "kernels/precision.h"
#include "models/family.h"
#include "nn/forward_context.h"
#include "nn/parameters.h"
#include "ops/torch.h"

namespace lshformer {

// The head that "architectures" names, be it by another family's name (loading then tells which tensor does not fit);
// kEncoder where it names none, nullopt where none of these.
std::optional<Task> FindTask(const ModelConfig& config);
Task TaskFromArchitectures(const ModelConfig& config, std::string_view where);  // the same; nullopt is an Error

struct ForwardOptions {
  bool train = false;                   // dropout on
  uint64_t seed = 42;                   // dropout
  int64_t step = 0;                     // optimizer step for dropout and resampled planes; 0 outside training
  int64_t micro_step = 0;               // which piece of an accumulated step
  bool gradient_checkpointing = false;  // in the backward compute every layer again from its input, all that is kept of
                                        // it: the same bits; a reversible model keeps less than that anyway
  bool all_logits = false;              // masked LM: logits of every position, not only of labelled ones
  bool hidden_states = false, attentions = false;  // record them (inspect)
  bool head_only = false;  // what the head gives is all that is wanted: where it looks at some tokens alone (an encoder
                           // without one: at the first of each sequence), the last layer may compute only those
  AttentionCounts* counts = nullptr;              // summed over layers where given
  const AttentionHook* attention_hook = nullptr;  // asked by every attention (nn/forward_context.h)
  // Asked before every attention, also in a backward that computes it again; null: the call is finished, and so is one
  // whose tokens several processes share.
  const StopToken* stop = nullptr;
};

// How many labelled items of a batch each term of a head's loss is a mean over, without a forward:
//   masked LM: {tokens}; pretraining: {tokens, sequences}; classification and question answering: {sequences}, of
//   several labels {sequences · labels}; multiple choice: {examples}
std::vector<int64_t> LossItems(Task task, const Labels& labels);

struct ModelOutput {
  torch::Tensor loss;                  // [], defined when the batch has labels of the head's kind: the sum of `terms`
  std::vector<torch::Tensor> terms;    // [] each, the means over what LossItems counts, undefined where that is
                                       // nothing; empty without labels
  torch::Tensor logits;                // masked LM: [labelled, V] or [T, V]; classification: [B, labels]; multiple
                                       // choice: [B]. Undefined in masked-LM training with labels: there the loss is
                                       // formed without keeping them
  torch::Tensor sentence_pair_logits;  // [B, 2], pretraining: 0 = B follows A, 1 = it does not (PairKind)
  torch::Tensor start_logits, end_logits;  // [T], question answering
  // Of a head that makes the end depend on the start (models/conditional_answers.h), where end_logits are those of each
  // sequence's likeliest start; in training there are neither these nor beams.
  torch::Tensor no_answer_logits;            // [B]
  std::vector<AnswerBeam> beams;             // [B]
  torch::Tensor last_hidden_state;           // [T, H]; under ForwardOptions::head_only perhaps only [read, H]
  torch::Tensor pooler_output;               // [B, H] where the model has a pooler
  std::vector<torch::Tensor> hidden_states;  // [T, H] each, embedding output first; reversible: the mean of the two
                                             // streams, of which last_hidden_state is the LayerNorm
  std::vector<std::vector<torch::Tensor>> attentions;  // [layer][sequence] → [heads, n, n]
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  // Without gradients safe from several threads at once, as long as nobody writes weights or sets the precision.
  ModelOutput Forward(const PackedBatch& batch, const ForwardOptions& options);
  // `look` sees the first batch that a Forward is given, before that, once. To be set before any.
  void BeforeFirstBatch(std::function<void(const PackedBatch&)> look) { look_ = std::move(look); }
  const ModelConfig& config() const { return config_; }
  // In what the linear layers of the encoder multiply; attention and the masked-LM decoder follow kBFloat16. Other
  // heads, the pooler and all else stay float32. The CPU must have it (RequirePrecision). Not while a Forward runs.
  void set_precision(Precision precision) { precision_ = precision; }
  Task task() const { return task_; }
  // From now on every forward sums the gradients of the layers' weights up in blocks of tokens, and several processes
  // that call it alike, each with `others`, share the tokens and the heads (ops/token_split.h); nullptr: this process
  // is alone. All get the whole output. Not while a Forward runs. Error where the model has no layers of
  // self-attention or its heads cannot be shared by so many.
  void ShareTokens(TokenExchange* others);
  bool shares_tokens() const { return shares_tokens_; }
  // Parameters under their HF tensor names, in file order; tied ones once.
  virtual std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const = 0;

 protected:
  Model(ModelConfig config, Task task) : config_(std::move(config)), task_(task) {}
  // What a Run carries from layer to layer; `output` takes the attention maps that are asked for.
  ForwardContext ContextOf(const PackedBatch& batch, const ForwardOptions& options, ModelOutput& output) const;
  // Where its layers leave their states; nullptr: nobody asks for them.
  static std::vector<torch::Tensor>* HiddenStates(const ForwardOptions& options, ModelOutput& output) {
    return options.hidden_states ? &output.hidden_states : nullptr;
  }
  ModelConfig config_;
  Task task_;
  Precision precision_ = Precision::kFloat32;

 private:
  virtual ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) = 0;
  std::function<void(const PackedBatch&)> look_;
  std::once_flag looked_;
  bool shares_tokens_ = false;
  TokenExchange* others_ = nullptr;
};

using ModelPtr = std::shared_ptr<Model>;

// What its parameters are, in the order of NamedParameters.
std::vector<ParameterRole> Roles(const Model& model);
// The name under which a file of this model has a parameter.
std::string FileWeightName(const Model& model, std::string_view name);
// Error unless the batch has the streams that the family reads, each with an id, a type and a position for every place
// of its sequences, and at least one sequence.
void CheckStreams(const PackedBatch& batch, const Family& family);

// Draws again, from `seed`, every parameter whose name contains one of `parts` ("attention.query", "layer.11."). Error
// naming a part that is in no name.
void RedrawParameters(Model& model, const std::vector<std::string>& parts, uint64_t seed);

// Random weights from (seed, parameter name): normal(0, initializer_range), biases 0, LayerNorm 1 / 0, padding row 0;
// where a family draws otherwise, as its parameters say (Initial).
ModelPtr CreateModel(const ModelConfig& config, Task task, uint64_t seed);

// Where a loaded model keeps its weights: in memory of its own, or, where a file holds them as float32, in the mapped
// file, which a model that is only asked does not have to copy. Mapped weights must not be written.
enum class WeightPlace { kMemory, kMappedFile };

// config.json and the weights of `folder` (one file or shards; F32, F16, BF16 or F64). Weights of the encoder must all
// be there with the right shapes; head weights that are missing are drawn from `seed` and named in one warning unless
// `require_head`, and where that is not asked, ignore_mismatched_sizes draws those of another shape (a head for three
// labels where two are needed), else they are an Error too. NaN weights are refused. `adjust` may change the config
// (attention flags, labels) before the model is built.
ModelPtr LoadModel(const std::string& folder, Task task, uint64_t seed, bool require_head,
                   const std::function<void(ModelConfig&)>& adjust = {}, WeightPlace place = WeightPlace::kMemory,
                   bool ignore_mismatched_sizes = false);

// The same model with parameters of its own.
ModelPtr CopyOf(const Model& model);
// The same parameters, shared, under other attention; `directions`: tensors that it stores (nn/self_attention.h).
ModelPtr WithAttention(const Model& model, std::vector<AttentionSpec> attention,
                       const std::vector<std::pair<std::string, torch::Tensor>>& directions = {});

// Writes config.json and model.safetensors (kF32, kF16 or kBF16; HF names, tied aliases left out), atomically, weights
// first. Error if a weight is too large for float16.
void SaveModel(const Model& model, const std::string& folder, DType dtype = DType::kF32);

// Parameters per block, in file order: ("embeddings", n), ("encoder.layer.0", n), …, ("pooler", n), ("head", n).
std::vector<std::pair<std::string, int64_t>> ParametersByBlock(const Model& model);
// The same from the config alone; nothing is allocated.
std::vector<std::pair<std::string, int64_t>> ParametersByBlock(const ModelConfig& config, Task task);

}  // namespace lshformer
