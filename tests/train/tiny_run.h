// A training run small enough for tests: a two-layer BERT on random tokens.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/philox.h"
#include "data/masking.h"
#include "models/model.h"
#include "ops/torch.h"
#include "train/optimizer.h"
#include "train/trainer.h"

namespace lshformer::testing {

constexpr int kTinyVocabulary = 50;

inline ModelConfig TinyConfig(double dropout, const AttentionSpec& attention = {}) {
  ModelConfig config;
  config.architectures = {"BertForMaskedLM"};
  config.vocab_size = kTinyVocabulary;
  config.hidden_size = 16;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 24;
  config.max_position_embeddings = 32;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  config.attention = {attention};
  return config;
}

// Example i: 5 to 24 tokens, nine of ten alike, so that there is something to learn. A quarter of the tokens is
// labelled and hidden behind token 4, others in every epoch; every tenth example has no label at all.
inline PackedBatch TinyBatch(int64_t epoch, std::span<const int64_t> examples) {
  constexpr int kFirst = 5;
  PackedBatch batch;
  for (const int64_t example : examples) {
    const uint64_t number = static_cast<uint64_t>(example);
    PhiloxStream text(StreamKey(1, 0, 0, 0, Purpose::kSynthetic), number);
    PhiloxStream mask(StreamKey(1, static_cast<uint64_t>(epoch), 0, 0, Purpose::kMasking), number);
    const auto draw = [&] { return static_cast<int32_t>(kFirst + text.Below(kTinyVocabulary - kFirst)); };
    std::vector<int32_t> ids(5 + text.Below(20));
    const int32_t usual = draw();
    for (int32_t& id : ids) {
      const int32_t label = text.Uniform() < 0.9 ? usual : draw();
      const bool labelled = example % 10 != 3 && mask.Uniform() < 0.25;
      batch.labels.tokens.push_back(labelled ? label : kIgnoredLabel);
      id = labelled ? 4 : label;
    }
    AppendSequence(batch, ids, {}, number);
  }
  return batch;
}

inline TrainingData TinyData(int64_t examples) { return {examples, TinyBatch}; }

inline ModelPtr TinyModel(double dropout = 0.1, const AttentionSpec& attention = {}, uint64_t seed = 7,
                          bool reversible = false) {
  ModelConfig config = TinyConfig(dropout, attention);
  config.reversible = reversible;
  return CreateModel(config, Task::kMaskedLm, seed);
}

inline TrainingOptions TinyOptions() {
  TrainingOptions options;
  options.per_device_train_batch_size = 4;
  options.learning_rate = 1e-2;
  options.weight_decay = 0.01;
  options.max_steps = 12;
  options.logging_steps = 2;
  options.save_steps = 0;
  return options;
}

inline NamedTensors Copies(const Model& model) {
  NamedTensors copies;
  for (const auto& [name, parameter] : model.NamedParameters()) copies.emplace_back(name, parameter.detach().clone());
  return copies;
}

// The names of the tensors that differ in any bit.
inline std::vector<std::string> Different(const NamedTensors& a, const NamedTensors& b) {
  std::vector<std::string> names;
  if (a.size() != b.size()) return {"another number of tensors"};
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first || !torch::equal(a[i].second, b[i].second)) names.push_back(a[i].first);
  }
  return names;
}

}  // namespace lshformer::testing
