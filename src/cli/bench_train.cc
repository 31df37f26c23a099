// lshformer bench train: masked-LM steps on random ids, forward, backward and AdamW, variants in turn.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/philox.h"
#include "cli/bench_model.h"
#include "cli/flags.h"
#include "data/masking.h"
#include "jobs/model_source.h"
#include "models/model.h"
#include "ops/tensor_memory.h"
#include "train/step.h"

namespace lshformer::cli {
namespace {

constexpr double kLabelled = 0.15;

struct BenchTrainFlags {
  std::string model_type = "bert", config_name;
  std::vector<std::string> config_overrides;  // each a model; empty: the config as it is
  bool gradient_checkpointing = false;
  std::vector<int> lengths{128, 512};
  int batch_size = 8, runs = 5;
  std::vector<std::string> attention;  // empty: the config's own
  std::vector<std::string> dtypes{"float32"};
  AttentionChanges lsh;
  bool json = false, no_machine = false;
};

// One model with its optimizer and data: all that a step touches.
class Trainee {
 public:
  Trainee(const ModelVariant& variant, PackedBatch batch, const TrainingOptions& options)
      : model_(CreateModel(variant.config, Task::kMaskedLm, options.seed)),
        step_(*model_, options),
        batch_(std::move(batch)),
        options_(options) {
    model_->set_precision(variant.precision);
  }

  void Step() {
    step_.Accumulate(batch_, LabelledItems(batch_));
    step_.Reduce();
    step_.Update(options_.learning_rate);
  }

  // Tensors alive at once in a forward and backward, beside weights, their gradients and the optimizer's state: asked
  // for one gradient alone, at the very beginning of the model, the backward keeps none of the others.
  int64_t ActivationBytes() {
    ClearGradients();
    std::vector<torch::Tensor> first;
    for (const auto& [name, parameter] : step_.parameters())
      if (name == "bert.embeddings.LayerNorm.weight") first.push_back(parameter);
    ForwardOptions forward;
    forward.train = true;
    forward.seed = options_.seed;
    forward.gradient_checkpointing = options_.gradient_checkpointing;
    const TensorMemory memory;
    const torch::Tensor loss = model_->Forward(batch_, forward).loss;
    loss.backward(/*gradient=*/{}, /*retain_graph=*/false, /*create_graph=*/false, first);
    ClearGradients();
    return memory.peak();
  }

 private:
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
  for (const int32_t id : batch.ids) batch.token_labels.push_back(stream.Uniform() < kLabelled ? id : kIgnoredLabel);
  batch.token_labels[0] = batch.ids[0];  // a short batch may have drawn none
  return batch;
}

// One --config_overrides and the config that it makes.
struct Overridden {
  std::vector<std::pair<std::string, std::string>> changes;
  ModelConfig config;
};

// Every --config_overrides, once each: the order of its keys and the way a value is written make no other model.
std::vector<Overridden> OverriddenConfigs(const BenchTrainFlags& flags) {
  ModelConfig base;
  if (!flags.config_name.empty()) base = ReadModelConfig(ConfigPath(flags.config_name));
  std::vector<std::string> overrides = flags.config_overrides;
  if (overrides.empty()) overrides.emplace_back();
  std::vector<Overridden> all;
  std::vector<Json> seen;
  for (const std::string& text : overrides) {
    Overridden one{SplitOverrides(text, "--config_overrides"), base};
    ApplyOverrides(one.config, text, "--config_overrides");
    if (flags.gradient_checkpointing && one.config.reversible)
      FailUsage("--gradient_checkpointing: a reversible model keeps no layer's activations anyway");
    for (const auto& [key, value] : one.changes) {
      if (key == "attention" && !flags.attention.empty())
        FailUsage("--config_overrides: \"attention\" has no effect beside --attention");
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
std::vector<ModelVariant> Variants(const BenchTrainFlags& flags) {
  const std::string where = flags.config_name.empty() ? "--config_overrides" : flags.config_name;
  const std::vector<Overridden> models = OverriddenConfigs(flags);
  std::vector<ModelVariant> variants;
  std::map<std::string, int> used;
  for (const Overridden& model : models) {
    for (ModelVariant& variant : ModelVariants(model.config, flags.attention, flags.lsh, flags.dtypes, where)) {
      if (const std::string differs = WhatDiffers(model, models); !differs.empty()) {
        variant.name += ", " + differs;
      } else if (model.config.reversible) {
        variant.name += ", reversible";
      }
      if (flags.gradient_checkpointing) variant.name += ", checkpointed";
      const int count = ++used[variant.name];
      if (count > 1) variant.name += fmt::format("-{}", count);
      variants.push_back(std::move(variant));
    }
  }
  return variants;
}

Json Rows(int length, const std::vector<ModelVariant>& variants, const BenchTrainFlags& flags, uint64_t seed) {
  TrainingOptions options;  // what a learning rate and clipping are does not matter to the time
  options.seed = seed;
  options.gradient_checkpointing = flags.gradient_checkpointing;
  std::vector<std::unique_ptr<Trainee>> trainees;
  std::vector<std::function<void()>> runs;
  std::vector<int64_t> activation_bytes;
  for (const ModelVariant& variant : variants) {
    trainees.push_back(
        std::make_unique<Trainee>(variant, LabelledBatch(variant.config, flags.batch_size, length, seed), options));
    activation_bytes.push_back(trainees.back()->ActivationBytes());
    runs.push_back([trainee = trainees.back().get()] { trainee->Step(); });
  }
  const std::vector<Timing> timings = TimeInterleaved(runs, flags.runs);
  Json rows = Json::array();
  for (size_t v = 0; v < variants.size(); ++v) {
    rows.push_back(ModelRow(variants[v], "forward_backward", flags.batch_size, length,
                            int64_t{length} * flags.batch_size, timings[v]));
    rows.back()["layers"] = variants[v].config.num_hidden_layers;
    rows.back()["reversible"] = variants[v].config.reversible;
    rows.back()["gradient_checkpointing"] = flags.gradient_checkpointing;
    rows.back()["chunk_size_feed_forward"] = variants[v].config.chunk_size_feed_forward;
    rows.back()["activation_bytes"] = activation_bytes[v];
  }
  return rows;
}

void BenchTrain(const BenchTrainFlags& flags, uint64_t seed) {
  const std::vector<ModelVariant> variants = Variants(flags);
  for (const ModelVariant& variant : variants)
    CheckLengths(flags.lengths, flags.batch_size, variant.config, "--batch_size");
  const Json machine = DescribeMachine(!flags.no_machine);
  Json results = Json::array();
  for (const int length : Distinct(flags.lengths)) {
    for (Json& row : Rows(length, variants, flags, seed)) results.push_back(std::move(row));
  }
  const std::vector<std::string> columns{"name",
                                         "layers",
                                         "length",
                                         "tokens",
                                         "median_ms",
                                         "p10_ms",
                                         "p90_ms",
                                         "tokens_per_second",
                                         "sequences_per_second",
                                         "activation_bytes"};
  const std::string text = FormatBenchmark(machine, results, columns, flags.json);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void AddBenchTrain(CLI::App& bench, CommonFlags& common) {
  CLI::App* command = bench.add_subcommand("train", "masked-LM steps on random ids, 15 % labelled, variants in turn");
  auto flags = std::make_shared<BenchTrainFlags>();
  const char* group = "What is timed";
  command->add_option("--model_type", flags->model_type, "the model")->check(OneOf({"bert"}))->group(group);
  command
      ->add_option("--config_name", flags->config_name, "its config.json or a folder that has one; default BERT base")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--config_overrides", flags->config_overrides, "changes to it; repeat it for several models")
      ->type_name("KEY=VALUE,…")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command
      ->add_flag("--gradient_checkpointing", flags->gradient_checkpointing,
                 "keep the input of each layer alone, as pretrain and train do with this flag")
      ->group(group);
  AddVariantsFlag(*command, flags->attention, "a type or a JSON object; repeat it for several", group);
  command->add_option("--dtype", flags->dtypes, "of the linear layers and attention; repeat it for several")
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
