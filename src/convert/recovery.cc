#include "convert/recovery.h"

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/sampler.h"
#include "models/stored_directions.h"
#include "train/optimizer.h"
#include "train/schedule.h"

namespace lshformer {
namespace {

constexpr int kBatch = 8;  // texts a step
constexpr double kWarmup = 0.1;

torch::Tensor DistanceOf(const torch::Tensor& states, const torch::Tensor& wanted) {
  const torch::Tensor target = wanted.detach();
  return (states - target).square().sum() / target.square().sum();
}

// Behind every layer; reversible layers keep no states that gradients go through, so behind the last alone.
torch::Tensor Distance(const ModelOutput& output, const ModelOutput& wanted, bool reversible) {
  if (reversible) return DistanceOf(output.last_hidden_state, wanted.last_hidden_state);
  torch::Tensor sum;
  const std::vector<torch::Tensor>& states = output.hidden_states;
  for (size_t i = 1; i < states.size(); ++i) {  // 0: the embeddings, which no attention reaches
    const torch::Tensor part = DistanceOf(states[i], wanted.hidden_states[i]);
    sum = sum.defined() ? sum + part : part;
  }
  return sum / static_cast<double>(states.size() - 1);
}

// Σ p (log p − log q) over each sequence's tokens, the mean over sequences.
torch::Tensor Divergence(const torch::Tensor& logits, const torch::Tensor& wanted, const PackedBatch& batch) {
  torch::Tensor sum;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const int32_t begin = batch.tokens.cu_seqlens[b], end = batch.tokens.cu_seqlens[b + 1];
    const torch::Tensor log_p = torch::log_softmax(wanted.slice(0, begin, end), 0);
    const torch::Tensor part = (log_p.exp() * (log_p - torch::log_softmax(logits.slice(0, begin, end), 0))).sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum / static_cast<double>(batch.sequences());
}

// The answers to questions: where they begin and, unless the head makes the end depend on that, where they end.
torch::Tensor AnswerDistance(const ModelOutput& output, const ModelOutput& wanted, const PackedBatch& batch) {
  const torch::Tensor starts = Divergence(output.start_logits, wanted.start_logits, batch);
  if (wanted.no_answer_logits.defined()) return starts;
  return 0.5 * (starts + Divergence(output.end_logits, wanted.end_logits, batch));
}

}  // namespace

ModelPtr Recover(Model& exact, const std::vector<AttentionSpec>& attention, const LayerDirections& directions,
                 const Tokenizer& tokenizer, const RecoveryOptions& options) {
  const CalibrationTexts texts =
      ReadTrainingTexts(options.train_file, tokenizer, exact.config(), options.max_seq_length);
  const ModelPtr student = WithAttention(*CopyOf(exact), attention, DirectionTensors(directions));
  for (Model* model : {&exact, student.get()}) model->set_precision(options.precision);
  NamedTensors parameters;
  std::vector<ParameterRole> roles;
  const std::vector<ParameterRole> all = Roles(*student);
  const NamedTensors named = student->NamedParameters();
  for (size_t i = 0; i < named.size(); ++i) {
    if (!all[i].trained) continue;
    parameters.push_back(named[i]);
    roles.push_back(all[i]);
  }
  TrainingOptions training;
  training.learning_rate = options.learning_rate;
  training.warmup_ratio = kWarmup;
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(training, parameters, roles);
  const Schedule schedule = MakeSchedule(training, options.steps);
  ForwardOptions forward;
  forward.hidden_states = !exact.config().reversible;
  const bool answers = exact.task() == Task::kQuestionAnswering && texts.pairs;
  Progress progress("recovering", options.steps, "step");
  TrainSampler sampler(texts.set.size(), kBatch, /*accumulation=*/1, options.seed);
  for (int64_t step = 0; step < options.steps; ++step) {
    ThrowIfStopped("recovering");
    const PackedBatch packed = MakeBatch(texts.set, sampler.Batches(step).front());
    ModelOutput wanted;
    {
      const torch::NoGradGuard no_grad;
      wanted = exact.Forward(packed, forward);
    }
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
    const ModelOutput output = student->Forward(packed, forward);
    torch::Tensor loss = Distance(output, wanted, exact.config().reversible);
    if (answers) loss = loss + AnswerDistance(output, wanted, packed);
    loss.backward();
    const double norm = GradientNorm(parameters);
    if (!std::isfinite(norm)) Fail("recovering: the gradient of step {} is not finite", step);
    optimizer->Step(LearningRate(schedule, step), ClipScale(norm, training.max_grad_norm));
    progress.Update(step + 1, fmt::format("distance {:.4f}", loss.item<double>()));
  }
  for (const auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
  for (Model* model : {&exact, student.get()}) model->set_precision(Precision::kFloat32);
  return student;
}

}  // namespace lshformer
