#include "convert/recovery.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "models/stored_directions.h"
#include "train/checkpoint.h"

namespace lshformer {
namespace {

constexpr int kBatch = 8;  // texts a step
constexpr double kWarmup = 0.1;
// A checkpoint takes as long as about half a step on texts of some hundred tokens; a kill costs so many steps at most.
constexpr int64_t kSaveSteps = 50, kLoggingSteps = 10;

torch::Tensor DistanceOf(const torch::Tensor& states, const torch::Tensor& wanted) {
  const torch::Tensor target = wanted.detach();
  return (states - target).square().sum() / target.square().sum();
}

// Behind every layer, of which each is `inner` states (inner_group_num); reversible layers keep no states that
// gradients go through, so behind the last alone.
torch::Tensor Distance(const ModelOutput& output, const ModelOutput& wanted, bool reversible, size_t inner) {
  if (reversible) return DistanceOf(output.last_hidden_state, wanted.last_hidden_state);
  torch::Tensor sum;
  const std::vector<torch::Tensor>& states = output.hidden_states;
  for (size_t i = inner; i < states.size(); i += inner) {  // 0: the embeddings, which no attention reaches
    const torch::Tensor part = DistanceOf(states[i], wanted.hidden_states[i]);
    sum = sum.defined() ? sum + part : part;
  }
  return sum / static_cast<double>((states.size() - 1) / inner);
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

TrainingOptions TrainingOf(const RecoveryOptions& options) {
  TrainingOptions training;
  training.per_device_train_batch_size = kBatch;
  training.learning_rate = options.learning_rate;
  training.warmup_ratio = kWarmup;
  training.max_steps = options.steps;
  training.logging_steps = kLoggingSteps;
  training.save_steps = kSaveSteps;
  training.save_total_limit = 1;
  training.seed = options.seed;
  return training;
}

// The checkpoint of this very training, "" if there is none; others go.
std::string CheckpointOf(const std::string& folder, const Json& settings) {
  if (folder.empty()) return "";
  const std::string newest = NewestCheckpoint(folder);
  if (!newest.empty()) {
    const std::string path = newest + "/trainer_state.json";
    if (ParseTrainerState(ReadJsonFile(path), path).run_settings == settings) {
      RemovePartialCheckpoints(folder);
      return newest;
    }
  }
  RemoveCheckpoints(folder);
  return "";
}

// The trainer with what it tells put into the words of a recovery.
void TrainTowardsExact(Model& student, const TrainingData& data, const RecoveryOptions& options,
                       const TrainerPlace& place, const TrainerHooks& hooks, const TrainingLoss& loss) {
  TrainerHooks watched = hooks;
  int64_t made = 0;
  watched.progress = [&](const TrainingProgress& progress) {
    made = progress.step;
    if (hooks.progress) hooks.progress(progress);
  };
  try {
    Train(student, data, TrainingOf(options), place, watched, loss);
  } catch (const Interrupted& stopped) {
    const char* const name = stopped.signal() == SIGINT ? "SIGINT" : "SIGTERM";
    if (place.output_dir.empty()) throw Interrupted(stopped.signal(), fmt::format("recovering: stopped by {}", name));
    throw Interrupted(stopped.signal(),
                      fmt::format("recovering: stopped by {} after step {} of {}; the same command goes on from there",
                                  name, made, options.steps));
  } catch (const Error& error) {
    std::error_code ignored;
    if (!place.output_dir.empty() && !HasCheckpoints(place.output_dir))
      std::filesystem::remove_all(place.output_dir, ignored);  // nothing to go on from
    Fail("recovering: {}", error.Spelled(kOptionMark));
  }
}

}  // namespace

TrainingLoss DistanceToExact(Model& exact, bool answers) {
  TrainingLoss loss;
  loss.items = [](Model&, std::span<const PackedBatch> update) {
    std::vector<TermItems> items;
    for (const PackedBatch& batch : update) items.push_back({batch.sequences()});
    return items;
  };
  loss.terms = [&exact, answers](Model& student, const PackedBatch& batch, const ForwardOptions&) {
    const bool reversible = exact.config().reversible;
    ForwardOptions forward;
    forward.hidden_states = !reversible;
    ModelOutput wanted;
    {
      const torch::NoGradGuard no_grad;
      wanted = exact.Forward(batch, forward);
    }
    const ModelOutput output = student.Forward(batch, forward);
    torch::Tensor distance = Distance(output, wanted, reversible, static_cast<size_t>(exact.config().inner_group_num));
    if (answers) distance = distance + AnswerDistance(output, wanted, batch);
    return std::vector<torch::Tensor>{distance};
  };
  return loss;
}

ModelPtr Recover(Model& exact, const std::vector<AttentionSpec>& attention, const LayerDirections& directions,
                 const CalibrationTexts& texts, const RecoveryOptions& options, const TrainerHooks& hooks) {
  const ModelPtr student = WithAttention(*CopyOf(exact), attention, DirectionTensors(directions));
  for (Model* model : {&exact, student.get()}) model->set_precision(options.precision);
  TrainerPlace place{.output_dir = options.folder, .resume_from = "", .run_settings = options.settings};
  place.run_settings["layers"] = ToJson(attention);  // which may hang on times
  place.run_settings["training texts"] = fmt::format("{:016x}", texts.set.Fingerprint());
  place.resume_from = CheckpointOf(options.folder, place.run_settings);
  const TrainingData data{texts.set.size(), [&texts](int64_t, std::span<const int64_t> examples) {
                            return MakeBatch(texts.set, examples);
                          }};
  const bool answers = exact.task() == Task::kQuestionAnswering && texts.pairs;
  TrainTowardsExact(*student, data, options, place, hooks, DistanceToExact(exact, answers));
  for (const auto& [name, parameter] : student->NamedParameters()) parameter.mutable_grad().reset();
  for (Model* model : {&exact, student.get()}) model->set_precision(Precision::kFloat32);
  return student;
}

}  // namespace lshformer
