#include "bench/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/philox.h"
#include "bench/model.h"
#include "data/masking.h"
#include "jobs/model_source.h"
#include "models/model.h"
#include "ops/tensor_memory.h"
#include "train/step.h"

namespace lshformer {
namespace {

constexpr double kLabelled = 0.15;

// One model with its optimizer and data: all that a step touches.
class Trainee {
 public:
  Trainee(const ModelVariant& variant, PackedBatch batch, const TrainingOptions& options)
      : model_(CreateModel(variant.config, TaskOf(variant.config, Task::kMaskedLm), options.seed)),
        step_(*model_, options),
        batch_(std::move(batch)),
        options_(options) {
    model_->set_precision(variant.precision);
  }

  void Step() {
    step_.Begin({&batch_, 1});
    step_.Accumulate(batch_);
    step_.Reduce();
    step_.Update(options_.learning_rate);
  }

  // Tensors alive at once in a forward and backward, beside weights, their gradients and the optimizer's state: asked
  // for one gradient alone, at the very beginning of the model, the backward keeps none of the others.
  int64_t ActivationBytes() {
    ClearGradients();
    std::vector<torch::Tensor> first;
    for (const auto& [name, parameter] : step_.parameters())
      if (name == FamilyOf(model_->config()).first_parameter) first.push_back(parameter);
    const TensorMemory memory;
    const torch::Tensor loss = model_->Forward(batch_, OfTraining()).loss;
    loss.backward(/*gradient=*/{}, /*retain_graph=*/false, /*create_graph=*/false, first);
    ClearGradients();
    return memory.peak();
  }

  void CountAttention(const AttentionMeter& meter) {
    const torch::NoGradGuard no_gradients;
    ForwardOptions forward = OfTraining();
    meter.LookAt(forward);
    model_->Forward(batch_, forward);
  }

 private:
  ForwardOptions OfTraining() const {
    ForwardOptions forward;
    forward.train = true;
    forward.seed = options_.seed;
    forward.gradient_checkpointing = options_.gradient_checkpointing;
    forward.head_only = true;  // as HeadLoss
    return forward;
  }

  void ClearGradients() {
    for (const auto& [name, parameter] : step_.parameters()) parameter.mutable_grad().reset();
  }

  ModelPtr model_;
  TrainingStep step_;
  PackedBatch batch_;
  TrainingOptions options_;
};

PackedBatch LabelledBatch(const ModelConfig& config, int sequences, int length, uint64_t seed) {
  PackedBatch batch = RandomBatch(config, sequences, length, seed);
  PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kBenchmark), /*substream=*/1);
  if (TaskOf(config, Task::kMaskedLm) == Task::kQuestionAnswering) {
    for (int b = 0; b < sequences; ++b) {
      batch.labels.start_positions.push_back(static_cast<int32_t>(stream.Below(static_cast<uint64_t>(length))));
      batch.labels.end_positions.push_back(batch.labels.start_positions.back());
    }
    return batch;
  }
  for (const int32_t id : batch.tokens.ids)
    batch.labels.tokens.push_back(stream.Uniform() < kLabelled ? id : kIgnoredLabel);
  batch.labels.tokens[0] = batch.tokens.ids[0];  // a short batch may have drawn none
  return batch;
}

// One --config_overrides and the config that it makes.
struct Overridden {
  std::vector<std::pair<std::string, std::string>> changes;
  ModelConfig config;
};

// Every --config_overrides, once each: the order of its keys and the way a value is written make no other model.
std::vector<Overridden> OverriddenConfigs(const BenchTrainOptions& options) {
  ModelConfig base;
  if (!options.model_type.empty()) base = DefaultModelConfig(options.model_type, Marked("model_type"));
  if (!options.config_name.empty()) base = ReadModelConfig(ConfigPath(options.config_name));
  std::vector<std::string> overrides = options.config_overrides;
  if (overrides.empty()) overrides.emplace_back();
  const std::string where = Marked("config_overrides");
  std::vector<Overridden> all;
  std::vector<Json> seen;
  for (const std::string& text : overrides) {
    Overridden one{SplitOverrides(text, where), base};
    ApplyOverrides(one.config, text, where);
    if (!options.attention.empty() && !FamilyOf(one.config).encoder_layers)
      FailOption("attention", "a model of type \"{}\" has no self-attention", one.config.model_type);
    if (options.gradient_checkpointing && one.config.reversible)
      FailOption("gradient_checkpointing", "a reversible model keeps no layer's activations anyway");
    for (const auto& [key, value] : one.changes) {
      if (key == "attention" && !options.attention.empty())
        FailOption("config_overrides", "\"attention\" has no effect beside {}", OptionName{"attention"});
    }
    Json config = ToJson(one.config);
    if (std::find(seen.begin(), seen.end(), config) != seen.end()) continue;
    seen.push_back(std::move(config));
    all.push_back(std::move(one));
  }
  return all;
}

// The changes that not all models share: "num_hidden_layers=6,reversible=true".
std::string WhatDiffers(const Overridden& one, const std::vector<Overridden>& all) {
  const Json mine = ToJson(one.config);
  const auto value_of = [](const Json& config, const std::string& key) {
    return config.contains(key) ? config[key] : Json();
  };
  std::string differs;
  for (size_t i = 0; i < one.changes.size(); ++i) {
    const auto& [key, value] = one.changes[i];
    const bool later = std::any_of(one.changes.begin() + static_cast<std::ptrdiff_t>(i) + 1, one.changes.end(),
                                   [&, &k = key](const auto& change) { return change.first == k; });
    const bool common = std::all_of(all.begin(), all.end(), [&, &k = key](const Overridden& other) {
      return value_of(ToJson(other.config), k) == value_of(mine, k);
    });
    if (!later && !common)
      differs += (differs.empty() ? "" : ",") + key + "=" + value;  // of a key given twice the last
  }
  return differs;
}

// Every model with every --attention and --dtype, in the order of the flags, under names of their own.
std::vector<ModelVariant> Variants(const BenchTrainOptions& options) {
  const std::string where = options.config_name.empty() ? Marked("config_overrides") : options.config_name;
  const std::vector<Overridden> models = OverriddenConfigs(options);
  std::vector<ModelVariant> variants;
  std::map<std::string, int> used;
  for (const Overridden& model : models) {
    for (ModelVariant& variant :
         ModelVariants(model.config, options.attention, options.lsh, options.precisions, where)) {
      if (const std::string differs = WhatDiffers(model, models); !differs.empty()) {
        variant.name += ", " + differs;
      } else if (model.config.reversible) {
        variant.name += ", reversible";
      }
      if (options.gradient_checkpointing) variant.name += ", checkpointed";
      const int count = ++used[variant.name];
      if (count > 1) variant.name += fmt::format("-{}", count);
      variants.push_back(std::move(variant));
    }
  }
  return variants;
}

Json Rows(int length, const std::vector<ModelVariant>& variants, const BenchTrainOptions& options) {
  TrainingOptions training;  // what a learning rate and clipping are does not matter to the time
  training.seed = options.seed;
  training.gradient_checkpointing = options.gradient_checkpointing;
  std::vector<std::unique_ptr<Trainee>> trainees;
  std::vector<std::function<void()>> runs;
  std::vector<int64_t> activation_bytes;
  std::deque<AttentionMeter> meters;
  for (const ModelVariant& variant : variants) {
    trainees.push_back(std::make_unique<Trainee>(
        variant, LabelledBatch(variant.config, options.batch_size, length, options.seed), training));
    activation_bytes.push_back(trainees.back()->ActivationBytes());
    trainees.back()->CountAttention(meters.emplace_back(/*backward=*/true));
    runs.push_back([trainee = trainees.back().get()] { trainee->Step(); });
  }
  const std::vector<Timing> timings = TimeInterleaved(runs, options.runs, fmt::format("timing {} tokens", length));
  const std::vector<int64_t> sequences(static_cast<size_t>(options.batch_size), length);
  Json rows = Json::array();
  for (size_t v = 0; v < variants.size(); ++v) {
    rows.push_back(ModelRow(variants[v], /*backward=*/true, length, sequences, meters[v], timings[v]));
    const bool layered = FamilyOf(variants[v].config).encoder_layers;
    rows.back()["layers"] = layered ? Json(variants[v].config.num_hidden_layers) : Json();
    rows.back()["reversible"] = variants[v].config.reversible;
    rows.back()["gradient_checkpointing"] = options.gradient_checkpointing;
    rows.back()["chunk_size_feed_forward"] = variants[v].config.chunk_size_feed_forward;
    rows.back()["activation_bytes"] = activation_bytes[v];
  }
  return rows;
}

}  // namespace

BenchResult RunBenchTrain(const BenchTrainOptions& options) {
  const std::vector<ModelVariant> variants = Variants(options);
  for (const ModelVariant& variant : variants)
    CheckLengths(options.lengths, options.batch_size, variant.config, "batch_size");
  BenchResult benchmark{DescribeMachine(options.probe_machine)};
  for (const int length : Distinct(options.lengths)) {
    for (Json& row : Rows(length, variants, options)) benchmark.rows.push_back(std::move(row));
  }
  return benchmark;
}

}  // namespace lshformer
