// Models of words learn a task through the trainer.
#include <gtest/gtest.h>

#include "base/philox.h"
#include "models/model.h"
#include "models/word_batch.h"
#include "train/trainer.h"

namespace lshformer {
namespace {

using testing::Word;
using testing::WordExample;

constexpr int32_t kWords = 10;

// The question is a word: where does the context have it? In a fifth of the examples nowhere: place 0. Half of the
// words are unknown, and told by their letters.
WordExample Example(int64_t number) {
  PhiloxStream stream(StreamKey(2, 0, 0, 0, Purpose::kSynthetic), static_cast<uint64_t>(number));
  const auto word = [](int32_t w) -> Word { return {w % 2 == 0 ? 1 : 2 + w, {2 + w % 5, 2 + w / 5}}; };
  std::vector<int32_t> words(kWords);
  for (int32_t w = 0; w < kWords; ++w) words[w] = w;
  for (int32_t w = 0; w < kWords; ++w) std::swap(words[w], words[w + stream.Below(kWords - w)]);
  const auto length = static_cast<int32_t>(2 + stream.Below(4));
  WordExample example{{testing::kStartWord}, {testing::kStartWord}, 0, 0};
  for (int32_t i = 0; i < length; ++i) example.context.push_back(word(words[i]));
  const bool absent = stream.Below(5) == 0;
  const auto place = static_cast<int32_t>(stream.Below(length));
  example.question.push_back(word(words[absent ? length : place]));
  example.start = example.end = absent ? 0 : place + 1;
  return example;
}

PackedBatch Batch(int64_t, std::span<const int64_t> numbers) {
  std::vector<WordExample> examples;
  for (const int64_t number : numbers) examples.push_back(Example(number));
  PackedBatch batch = testing::BatchOf(examples);
  batch.sequence_ids.assign(numbers.begin(), numbers.end());
  return batch;
}

struct Case {
  const char *name, *model_type, *overrides;
  double learning_rate;
  int64_t max_steps;
};

class WordModelLearningTest : public ::testing::TestWithParam<Case> {};

TEST_P(WordModelLearningTest, FindsAWord) {
  ModelConfig config = DefaultModelConfig(GetParam().model_type, "test");
  ApplyOverrides(config,
                 "vocab_size=12,embedding_size=16,hidden_size=16,character_vocab_size=8,character_embedding_size=8,"
                 "character_filters=16,initializer_range=0.5,hidden_dropout_prob=0.05",
                 "test");
  ApplyOverrides(config, GetParam().overrides, "test");
  const ModelPtr model = CreateModel(config, Task::kQuestionAnswering, 7);
  TrainingOptions options;
  options.per_device_train_batch_size = 32, options.learning_rate = GetParam().learning_rate;
  options.max_steps = GetParam().max_steps;
  options.logging_steps = 0, options.save_steps = 0;
  Train(*model, {4000, Batch}, options, {}, {});

  std::vector<int64_t> fresh(200);
  for (size_t i = 0; i < fresh.size(); ++i) fresh[i] = 10000 + static_cast<int64_t>(i);
  const PackedBatch batch = Batch(0, fresh);
  const torch::NoGradGuard no_grad;
  const ModelOutput output = model->Forward(batch, {});
  int right = 0;
  for (int b = 0; b < batch.sequences(); ++b) {
    const auto best = [&](const torch::Tensor& logits) {
      return logits.slice(0, batch.tokens.cu_seqlens[b], batch.tokens.cu_seqlens[b + 1]).argmax().item<int64_t>();
    };
    right += best(output.start_logits) == batch.labels.start_positions[b] &&
             best(output.end_logits) == batch.labels.end_positions[b];
  }
  EXPECT_GE(right, 190) << "of 200";
}

// Chunks of four words: most contexts are hashed.
constexpr const char* kQanet =
    "num_hidden_layers=1,num_attention_heads=2,layer_dropout=0.05,attention_probs_dropout_prob=0";
constexpr const char* kHashed =
    "num_hidden_layers=1,num_attention_heads=2,layer_dropout=0.05,attention_probs_dropout_prob=0,"
    "attention={\"type\": \"reformer\", \"rounds\": 2, \"chunk\": 4}";
constexpr const char* kReversible =
    "num_hidden_layers=1,num_attention_heads=2,layer_dropout=0.05,attention_probs_dropout_prob=0,reversible=true,"
    "attention={\"type\": \"reformer\", \"rounds\": 2, \"chunk\": 4}";

INSTANTIATE_TEST_SUITE_P(Families, WordModelLearningTest,
                         ::testing::Values(Case{"bidaf", "bidaf", "", 0.005, 1000},
                                           Case{"qanet", "qanet", kQanet, 0.01, 600},
                                           Case{"qanet_reformer", "qanet", kHashed, 0.01, 600},
                                           Case{"qanet_reformer_reversible", "qanet", kReversible, 0.01, 600}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lshformer
