#include "bench/dist.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/progress.h"
#include "bench/model.h"
#include "jobs/model_source.h"
#include "models/config.h"
#include "models/model.h"
#include "train/shards.h"
#include "train/step.h"

namespace lshformer {
namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Behind a run of all processes: shown by the first one, and whether any was asked to stop.
class Runs {
 public:
  Runs(Communicator* processes, const std::string& title, int64_t runs) : processes_(processes) {
    if (processes == nullptr || processes->first()) progress_.emplace(title, runs, "runs");
  }
  void Done() {
    if (progress_) progress_->Update(++done_);
    ThrowIfAnyStopped(processes_, /*own=*/0, "timing");
  }

 private:
  Communicator* processes_;
  std::optional<Progress> progress_;
  int64_t done_ = 0;
};

// All begin together.
double MedianOf(Communicator& processes, int runs, const std::string& title, const std::function<void()>& work) {
  std::vector<double> times;
  Runs all(&processes, title, runs + 1);
  for (int run = 0; run <= runs; ++run) {
    processes.Barrier();
    times.push_back(Milliseconds(work));
    all.Done();
  }
  times.erase(times.begin());  // the first one warms up
  return Median(times);
}

Json Messages(Communicator& processes, const BenchDistOptions& options) {
  Json rows = Json::array();
  const int64_t ranks = processes.size();
  for (const int64_t bytes : options.sizes) {
    const int64_t count = std::max<int64_t>(1, bytes / static_cast<int64_t>(sizeof(float)) / ranks) * ranks;
    std::vector<float> mine(static_cast<size_t>(count)), all(static_cast<size_t>(count * ranks));
    const std::vector<int64_t> counts(static_cast<size_t>(ranks), count / ranks);
    const std::string title = fmt::format("timing messages of {} bytes", bytes);
    const double gather = MedianOf(processes, options.runs, title,
                                   [&] { processes.AllGather(std::span<const float>(mine), std::span<float>(all)); });
    const double exchange = MedianOf(processes, options.runs, title, [&] {
      processes.AllToAll(mine, counts, std::span<float>(all).first(mine.size()), counts);
    });
    const double sent = static_cast<double>(count * (ranks - 1) / ranks) * sizeof(float);
    rows.push_back({{"bytes", count * static_cast<int64_t>(sizeof(float))},
                    {"all_gather_ms", gather},
                    {"all_to_all_ms", exchange},
                    {"all_to_all_gbps", sent * 8e-6 / exchange}});
  }
  return rows;
}

ModelConfig Config(const BenchDistOptions& options) {
  ModelConfig config;
  if (!options.model_type.empty()) config = DefaultModelConfig(options.model_type, Marked("model_type"));
  if (!options.config_name.empty()) config = ReadModelConfig(ConfigPath(options.config_name));
  if (!options.config_overrides.empty()) ApplyOverrides(config, options.config_overrides, Marked("config_overrides"));
  if (!FamilyOf(config).encoder_layers) FailOption("model_type", "\"{}\" has no masked-LM head", config.model_type);
  CheckLengths({options.length}, options.per_device_train_batch_size, config, "per_device_train_batch_size");
  return config;
}

Json Step(Communicator* processes, const BenchDistOptions& options) {
  TrainingOptions training;
  training.seed = options.seed;
  training.total_batch_size = options.total_batch_size;
  training.gradient_shards = options.gradient_shards;
  training.per_device_train_batch_size = options.per_device_train_batch_size;
  training.shard_optimizer = options.shard_optimizer;
  ValidateTrainingOptions(training);
  const ModelConfig config = Config(options);
  const ModelPtr model = CreateModel(config, Task::kMaskedLm, options.seed);
  TrainingStep step(*model, training, HeadLoss(), processes);
  std::vector<PackedBatch> batches;
  std::vector<int> parts;
  for (const Piece& piece : PiecesOf({std::vector<int64_t>(static_cast<size_t>(options.total_batch_size))}, training)) {
    PackedBatch batch = RandomBatch(config, static_cast<int>(piece.examples.size()), options.length, options.seed);
    constexpr size_t kEvery = 7;  // about 15 % of the tokens are labelled
    for (size_t i = 0; i < batch.tokens.ids.size(); ++i)
      batch.labels.tokens.push_back(i % kEvery == 0 ? batch.tokens.ids[i] : kIgnoredLabel);
    batches.push_back(std::move(batch));
    parts.push_back(piece.part);
  }
  std::vector<double> forward_backward, exchange, update, whole;
  int64_t bytes = 0, messages = 0;
  Runs runs(processes, "timing steps", int64_t{options.runs} + 1);
  for (int run = 0; run <= options.runs; ++run) {
    if (processes != nullptr) processes->Barrier();
    if (processes != nullptr) bytes = processes->bytes_sent(), messages = processes->messages();
    forward_backward.push_back(Milliseconds([&] {
      step.Begin(batches, parts);
      for (const PackedBatch& batch : batches) step.Accumulate(batch);
    }));
    exchange.push_back(Milliseconds([&] { step.Reduce(); }));
    update.push_back(Milliseconds([&] { step.Update(1e-4); }));
    whole.push_back(forward_backward.back() + exchange.back() + update.back());
    if (processes != nullptr) bytes = processes->bytes_sent() - bytes, messages = processes->messages() - messages;
    runs.Done();
  }
  for (std::vector<double>* times : {&forward_backward, &exchange, &update, &whole}) times->erase(times->begin());
  int64_t parameters = 0;
  for (const auto& [name, parameter] : step.parameters()) parameters += parameter.numel();
  const int64_t ranks = processes == nullptr ? 1 : processes->size();
  return {{"parameters", parameters},
          {"tokens", int64_t{options.total_batch_size} * options.length},
          {"forward_backward_ms", Median(forward_backward)},
          {"exchange_ms", Median(exchange)},
          {"update_ms", Median(update)},
          {"bytes_sent", bytes},
          {"messages", messages},
          {"ring_bytes", 2 * (ranks - 1) * 4 * parameters / ranks},
          {"sequences_per_second", options.total_batch_size / Median(whole) * 1e3}};
}

}  // namespace

Json RunBenchDist(const BenchDistOptions& options) {
  const std::shared_ptr<Communicator> processes = JoinProcesses(options.meeting);
  Json result = {{"processes", processes == nullptr ? 1 : processes->size()}};
  if (processes != nullptr) {
    result["messages"] = Messages(*processes, options);
    result["barrier_ms"] = MedianOf(*processes, 20 * options.runs, "timing barriers", [&] { processes->Barrier(); });
  }
  result["step"] = Step(processes.get(), options);
  return processes == nullptr || processes->first() ? result : Json();
}

}  // namespace lshformer
