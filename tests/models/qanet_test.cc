// QANet: sizes, what depends on what, reversible and recomputed blocks. Its numbers: word_golden_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/parallel.h"
#include "models/model.h"
#include "models/qanet/config.h"
#include "models/word_batch.h"
#include "ops/tensor_memory.h"
#include "ops/threads.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::BatchOf;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::RandomExample;
using testing::TempFolder;
using testing::WordExample;
using torch::Tensor;

constexpr Task kTask = Task::kQuestionAnswering;

ModelConfig Parse(const std::string& keys) {
  return ParseModelConfig(ParseJson(R"({"model_type": "qanet")" + keys + "}", "config.json"), "config.json");
}

// Without the tables of words and characters.
int64_t Weights(const std::string& keys) {
  const ModelConfig config = Parse(keys);
  int64_t count = 0;
  for (const ParameterSpec& spec : FamilyOf(config).parameters(config, kTask))
    if (!spec.role.embedding) count += spec.elements();
  return count;
}

TEST(QanetTest, HasTheCountsOfItsSources) {
  EXPECT_EQ(Weights(""), 1204233) << "128 wide, characters of 64 numbers: the public code in torch";
  EXPECT_EQ(Weights(R"(, "character_embedding_size": 200)"), 1291273) << "of 200, as in the paper";
  EXPECT_EQ(Weights(R"(, "hidden_size": 96, "character_filters": 96, "num_attention_heads": 1)"), 697353)
      << "the public code in TensorFlow";
  EXPECT_EQ(Weights(R"(, "reversible": true)"), 1204233);
  EXPECT_EQ(Weights(R"(, "attention": "reformer")"), 1204233);
}

TEST(QanetTest, ParametersByBlock) {
  const auto blocks = ParametersByBlock(Parse(R"(, "vocab_size": 1000)"), kTask);
  ASSERT_EQ(blocks.size(), 12u);
  using Block = std::pair<std::string, int64_t>;
  EXPECT_EQ(blocks[0], Block("embeddings", 300000 + 200 * 64 + 161920));
  EXPECT_EQ(blocks[1], Block("embedding_encoder.0", 153345));
  EXPECT_EQ(blocks[2], Block("context_query_attention", 385));
  EXPECT_EQ(blocks[3], Block("resizer", 65536));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(blocks[4 + i], Block("model_encoder." + std::to_string(i), 117505));
  EXPECT_EQ(blocks[11], Block("output", 512));
}

// `keys` come before those that are small.
ModelConfig Small(const std::string& keys = "") {
  Json json = ParseJson(R"({"model_type": "qanet", "vocab_size": 40, "embedding_size": 12, "hidden_size": 16,
      "num_attention_heads": 2, "num_hidden_layers": 2, "character_vocab_size": 20, "character_embedding_size": 5,
      "character_filters": 6, "initializer_range": 1, "layer_dropout": 0.3})",
                        "small");
  json.update(ParseJson("{" + keys + "}", "keys"));
  return ParseModelConfig(json, "config.json");
}

std::vector<WordExample> Examples(const std::vector<std::pair<int, int>>& lengths = {
                                      {1, 1}, {40, 5}, {70, 2}, {2, 9}}) {
  std::vector<WordExample> examples;
  for (size_t i = 0; i < lengths.size(); ++i) examples.push_back(RandomExample(i, lengths[i].first, lengths[i].second));
  return examples;
}

Tensor Logits(Model& model, const PackedBatch& batch, bool train) {
  const torch::NoGradGuard no_grad;
  ForwardOptions options;
  options.train = train, options.step = 3;
  const ModelOutput output = model.Forward(batch, options);
  return torch::stack({output.start_logits, output.end_logits}, 1);
}

constexpr const char* kReformer = R"("attention": {"type": "reformer", "rounds": 2, "chunk": 16})";
constexpr const char* kVariants[] = {
    "", kReformer, R"("attention": "simhash")",
    R"("reversible": true, "fixed_word_embeddings": true, "attention": {"type": "reformer", "chunk": 16})"};

// Bit for bit, with dropout too: what a step leaves out, it leaves out of every row.
TEST(QanetTest, AnExampleIsItsOwnAloneOrInABatchOnAnyNumberOfThreads) {
  const std::vector<WordExample> examples = Examples();
  const PackedBatch batch = BatchOf(examples);
  for (const char* keys : kVariants) {
    const ModelPtr model = CreateModel(Small(keys), kTask, 1);
    for (const bool train : {false, true}) {
      SetAllThreads(1);
      const Tensor all = Logits(*model, batch, train);
      SetAllThreads(2);
      EXPECT_TRUE(torch::equal(Logits(*model, batch, train), all)) << keys;
      for (size_t i = 0; i < examples.size(); ++i) {
        const Tensor alone = Logits(*model, BatchOf({examples[i]}, i), train);
        EXPECT_TRUE(torch::equal(alone, all.slice(0, batch.tokens.cu_seqlens[i], batch.tokens.cu_seqlens[i + 1])))
            << "example " << i << keys << " training " << train;
      }
    }
  }
  SetAllThreads(HardwareThreads());
}

struct Result {
  double loss = 0;
  std::map<std::string, Tensor> gradients;
};

Result Step(Model& model, const PackedBatch& batch, ForwardOptions options) {
  options.train = true;
  for (const auto& [name, parameter] : model.NamedParameters()) parameter.mutable_grad().reset();
  const ModelOutput output = model.Forward(batch, options);
  output.loss.backward();
  Result result{output.loss.item<double>(), {}};
  for (const auto& [name, parameter] : model.NamedParameters())
    if (parameter.grad().defined())
      result.gradients[name] = parameter.grad().is_sparse() ? parameter.grad().to_dense() : parameter.grad().clone();
  return result;
}

// The same bits with every block computed again in the backward, and from one run to the next.
TEST(QanetTest, RecomputedBlocksChangeNoBit) {
  const PackedBatch batch = BatchOf(Examples());
  for (const char* keys : {kVariants[0], kVariants[1], kVariants[2]}) {
    const ModelPtr model = CreateModel(Small(keys), kTask, 1);
    for (const int64_t step : {0, 1}) {
      ForwardOptions options;
      options.step = step;
      const Result plain = Step(*model, batch, options);
      options.gradient_checkpointing = true;
      const Result again = Step(*model, batch, options);
      EXPECT_EQ(again.loss, plain.loss);
      ASSERT_EQ(again.gradients.size(), plain.gradients.size());
      for (const auto& [name, gradient] : plain.gradients)
        EXPECT_TRUE(torch::equal(again.gradients.at(name), gradient)) << name << keys;
    }
  }
}

// Tensors alive at once in a training step.
int64_t PeakBytes(const std::string& keys, const PackedBatch& batch, bool checkpointing = false) {
  const ModelPtr model = CreateModel(Small(keys), kTask, 1);
  ForwardOptions options;
  options.gradient_checkpointing = checkpointing;
  Step(*model, batch, options);
  const TensorMemory memory;
  Step(*model, batch, options);
  return memory.peak();
}

TEST(QanetTest, MemoryOfAReversibleModelHardlyGrowsWithDepth) {
  const PackedBatch batch = BatchOf(Examples({{700, 4}}));
  const auto growth = [&](const std::string& keys, bool checkpointing) {
    const std::string all = keys + kReformer;
    return PeakBytes(all + R"(, "num_hidden_layers": 5)", batch, checkpointing) -
           PeakBytes(all + R"(, "num_hidden_layers": 1)", batch, checkpointing);
  };
  const int64_t ordinary = growth("", false), checkpointed = growth("", true);
  const int64_t reversible = growth(R"("reversible": true, )", false);
  EXPECT_GT(ordinary, 3 * 4 * 4 * 700 * 16 * 4) << "4 blocks of 4 sub-layers, a tensor each, in 3 passes";
  EXPECT_LT(checkpointed, ordinary / 5) << "one tensor a block and pass";
  EXPECT_LT(reversible, ordinary / 20);
}

// Sub-layers are left out of some steps, and of no forward outside training.
TEST(QanetTest, StochasticDepthIsDrawnByTheStep) {
  const PackedBatch batch = BatchOf(Examples({{20, 4}}));
  const ModelPtr model =
      CreateModel(Small(R"("hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "word_dropout": 0,
                           "character_dropout": 0, "layer_dropout": 0.9, "num_hidden_layers": 1)"),
                  kTask, 1);
  constexpr int kSteps = 100;
  std::map<std::string, int> missing;
  for (int64_t step = 0; step < kSteps; ++step) {
    ForwardOptions options;
    options.step = step;
    const Result result = Step(*model, batch, options);
    for (const char* name :
         {"embedding_encoder.0.convolutions.0.norm.bias", "embedding_encoder.0.feed_forward.norm.bias"})
      if (result.gradients.count(name) == 0) ++missing[name];
  }
  // l = 1 of 6: 0.15; l = 6 of 6: 0.9. Five standard deviations of 100 draws.
  EXPECT_NEAR(missing["embedding_encoder.0.convolutions.0.norm.bias"], 0.15 * kSteps, 18);
  EXPECT_NEAR(missing["embedding_encoder.0.feed_forward.norm.bias"], 0.9 * kSteps, 15);
}

TEST(QanetTest, EveryVisitHashesAnew) {
  ModelConfig config = Small(R"("num_hidden_layers": 1, "attention": {"type": "reformer", "rounds": 1, "chunk": 16})");
  const ModelPtr model = CreateModel(config, kTask, 1);
  ForwardOptions options;
  AttentionCounts counts;
  options.counts = &counts;
  options.hidden_states = options.attentions = true;
  const torch::NoGradGuard no_grad;
  const ModelOutput output = model->Forward(BatchOf(Examples({{70, 40}, {50, 3}})), options);
  EXPECT_GT(counts.pairs_computed, 0);
  ASSERT_EQ(output.attentions.size(), 4u) << "the embedding block, and three passes of one";
  ASSERT_EQ(output.attentions[0].size(), 4u) << "contexts, then questions";
  EXPECT_EQ(output.attentions[0][2].sizes(), (std::vector<int64_t>{2, 40, 40}));
  ASSERT_EQ(output.attentions[3].size(), 2u);
  EXPECT_EQ(output.attentions[3][0].sizes(), (std::vector<int64_t>{2, 70, 70}));
  ASSERT_EQ(output.hidden_states.size(), 5u);
  for (const Tensor& state : output.hidden_states) EXPECT_EQ(state.sizes(), (std::vector<int64_t>{120, 16}));
  EXPECT_TRUE(torch::equal(output.hidden_states.back(), output.last_hidden_state));
}

TEST(QanetTest, SavesAndLoads) {
  const TempFolder folder;
  for (const char* keys : kVariants) {
    const ModelPtr model = CreateModel(Small(keys), kTask, 1);
    SaveModel(*model, folder.path());
    const ModelPtr loaded = LoadModel(folder.path(), kTask, 0, /*require_head=*/true);
    const PackedBatch batch = BatchOf(Examples());
    EXPECT_TRUE(torch::equal(Logits(*loaded, batch, false), Logits(*model, batch, false)));
    EXPECT_EQ(ToJson(loaded->config()).dump(), ToJson(model->config()).dump());
  }
  EXPECT_THAT(ErrorOf([&] {
                LoadModel(folder.path(), kTask, 0, true, [](ModelConfig& config) { config.reversible = false; });
              }),
              HasSubstr("the weights are those of a reversible model, which config.json does not say"));
}

TEST(QanetTest, RefusesKeysThatDoNotFit) {
  EXPECT_EQ(ErrorOf([] { Parse(R"(, "intermediate_size": 512)"); }),
            "config.json: \"intermediate_size\": models of type \"qanet\" have nothing that it could say");
  for (const char* key : {"hidden_act", "chunk_size_feed_forward", "attention_residual"})
    EXPECT_THAT(ErrorOf([&] { Parse(fmt::format(R"(, "{}": 1)", key)); }), HasSubstr(key));
  EXPECT_EQ(ErrorOf([] { Parse(R"(, "model_encoder_kernel_size": 4)"); }),
            "config.json: \"model_encoder_kernel_size\": expected an odd number, got 4");
  EXPECT_EQ(ErrorOf([] { Parse(R"(, "reversible": true, "model_encoder_convolutions": 3)"); }),
            "config.json: \"model_encoder_convolutions\": expected an even number with \"reversible\", which takes "
            "sub-layers in pairs, got 3");
  EXPECT_THAT(ErrorOf([] { Parse(R"(, "num_attention_heads": 7)"); }), HasSubstr("is not a multiple"));
  EXPECT_THAT(ErrorOf([] { Parse(R"(, "attention": ["dense", "simhash"])"); }), HasSubstr("expected one object or 7"));
  EXPECT_THAT(ErrorOf([] { Parse(R"(, "hidden_size": 65536, "num_attention_heads": 4096)"); }),
              HasSubstr("the sizes ask for"));
}

// Every parameter that the model computes with has a gradient; keys that queries stand for have none.
TEST(QanetTest, WhatHasNoGradient) {
  const PackedBatch batch = BatchOf(Examples());
  for (const bool shared : {false, true}) {
    const ModelPtr model = CreateModel(Small(shared ? kReformer : ""), kTask, 1);
    ForwardOptions options;
    model->Forward(batch, options).loss.backward();
    for (const auto& [name, parameter] : model->NamedParameters()) {
      const bool key = name.ends_with("key.weight");
      EXPECT_EQ(parameter.grad().defined(), !(key && shared) && !name.ends_with(".attention.bias")) << name;
    }
  }
}

}  // namespace
}  // namespace lshformer
