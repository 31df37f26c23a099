// lshformer bench train: masked-LM steps on random ids, forward, backward and AdamW, variants in turn.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/philox.h"
#include "cli/bench_model.h"
#include "cli/flags.h"
#include "data/masking.h"
#include "models/model.h"
#include "train/optimizer.h"

namespace lshformer::cli {
namespace {

constexpr double kLabelled = 0.15;

struct BenchTrainFlags {
  std::string model_type = "bert", config_name, config_overrides;
  std::vector<int> lengths{128, 512};
  int batch_size = 8, runs = 5;
  std::vector<std::string> attention;  // empty: the config's own
  std::vector<std::string> dtypes{"float32"};
  AttentionFlags lsh;
  bool json = false, no_machine = false;
};

// One model with its optimizer: all that a step touches.
class Trainee {
 public:
  Trainee(const ModelVariant& variant, uint64_t seed)
      : seed_(seed),
        model_(CreateModel(variant.config, Task::kMaskedLm, seed)),
        parameters_(model_->NamedParameters()),
        optimizer_(MakeOptimizer(TrainingOptions{}, parameters_)) {
    model_->set_precision(variant.precision);
  }

  void Step(const PackedBatch& batch) {
    for (const auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
    ForwardOptions forward;
    forward.train = true;
    forward.seed = seed_;
    forward.step = step_++;
    model_->Forward(batch, forward).loss.backward();
    optimizer_->Step(kLearningRate, ClipScale(GradientNorm(parameters_), 1));
  }

 private:
  static constexpr double kLearningRate = 5e-5;  // of no consequence for time; keeps random data from diverging
  uint64_t seed_;
  ModelPtr model_;
  NamedTensors parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  int64_t step_ = 0;
};

PackedBatch LabelledBatch(const ModelConfig& config, int sequences, int length, uint64_t seed) {
  PackedBatch batch = RandomBatch(config, sequences, length, seed);
  PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kBenchmark), /*substream=*/1);
  for (const int32_t id : batch.ids) batch.token_labels.push_back(stream.Uniform() < kLabelled ? id : kIgnoredLabel);
  batch.token_labels[0] = batch.ids[0];  // a short batch may have drawn none
  return batch;
}

ModelConfig BaseConfig(const BenchTrainFlags& flags) {
  ModelConfig config;
  if (!flags.config_name.empty()) config = ReadModelConfig(flags.config_name);
  if (!flags.config_overrides.empty()) ApplyOverrides(config, flags.config_overrides, "--config_overrides");
  return config;
}

Json Rows(int length, const std::vector<ModelVariant>& variants, const BenchTrainFlags& flags, uint64_t seed) {
  std::vector<std::unique_ptr<Trainee>> trainees;
  std::vector<std::function<void()>> runs;
  const PackedBatch batch = LabelledBatch(variants[0].config, flags.batch_size, length, seed);
  for (const ModelVariant& variant : variants) {
    trainees.push_back(std::make_unique<Trainee>(variant, seed));
    runs.push_back([trainee = trainees.back().get(), &batch] { trainee->Step(batch); });
  }
  const std::vector<Timing> timings = TimeInterleaved(runs, flags.runs);
  Json rows = Json::array();
  for (size_t v = 0; v < variants.size(); ++v)
    rows.push_back(ModelRow(variants[v], "forward_backward", flags.batch_size, length, batch.tokens(), timings[v]));
  return rows;
}

void BenchTrain(const BenchTrainFlags& flags, uint64_t seed) {
  const ModelConfig config = BaseConfig(flags);
  const std::vector<ModelVariant> variants =
      ModelVariants(config, flags.attention, flags.lsh, flags.dtypes,
                    flags.config_name.empty() ? "--config_overrides" : flags.config_name);
  CheckLengths(flags.lengths, flags.batch_size, config, "--batch_size");
  const Json machine = DescribeMachine(!flags.no_machine);
  Json results = Json::array();
  for (const int length : Distinct(flags.lengths)) {
    for (Json& row : Rows(length, variants, flags, seed)) results.push_back(std::move(row));
  }
  const std::vector<std::string> columns{
      "name", "length", "tokens", "median_ms", "p10_ms", "p90_ms", "tokens_per_second", "sequences_per_second"};
  const std::string text = FormatBenchmark(machine, results, columns, flags.json);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void AddBenchTrain(CLI::App& bench, CommonFlags& common) {
  CLI::App* command = bench.add_subcommand("train", "masked-LM steps on random ids, 15 % labelled, variants in turn");
  auto flags = std::make_shared<BenchTrainFlags>();
  const char* group = "What is timed";
  command->add_option("--model_type", flags->model_type, "the model")->check(OneOf({"bert"}))->group(group);
  command->add_option("--config_name", flags->config_name, "its config.json; default BERT base")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--config_overrides", flags->config_overrides, "changes to it")
      ->type_name("KEY=VALUE,…")
      ->group(group);
  AddVariantsFlag(*command, flags->attention, "a type or a JSON object; repeat it for several", group);
  command->add_option("--dtype", flags->dtypes, "of the linear layers; repeat it for several")
      ->delimiter(',')
      ->check(OneOf({"float32", "bfloat16"}))
      ->group(group);
  command->add_option("--lengths", flags->lengths, "tokens a sequence")
      ->delimiter(',')
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command->add_option("--batch_size", flags->batch_size, "sequences a step")
      ->check(IntegerIn(1, 1 << 20))
      ->group(group);
  AddMeasuringFlags(*command, flags->runs, flags->no_machine, flags->json);
  AddLshFlags(*command, flags->lsh);
  command->callback([flags, &common] { BenchTrain(*flags, common.seed); });
}

}  // namespace lshformer::cli
