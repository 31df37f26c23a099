// BiDAF: sizes, what depends on what, batches that do not fit. Its numbers: word_golden_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "models/bidaf/config.h"
#include "models/model.h"
#include "models/word_batch.h"
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
  return ParseModelConfig(ParseJson(R"({"model_type": "bidaf")" + keys + "}", "config.json"), "config.json");
}

// Without the tables of words and characters.
int64_t Weights(const ModelConfig& config) {
  int64_t count = 0;
  for (const ParameterSpec& spec : FamilyOf(config).parameters(config, kTask))
    if (!spec.role.embedding) count += spec.elements();
  return count;
}

TEST(BidafTest, HasTheCountsOfItsSources) {
  const std::string paper =
      R"(, "embedding_size": 100, "character_embedding_size": 8, "embedding_map": false, "question_to_context": "maximum")";
  EXPECT_EQ(Weights(Parse(R"(, "character_filters": 0, "second_biases": true)")), 1439405) << "CS224N's baseline";
  EXPECT_EQ(Weights(Parse(paper + R"(, "end_pointer": "attended_start")")), 2570703) << "the authors' code";
  EXPECT_EQ(Weights(Parse(paper)), 1610703) << "the paper's text";
}

TEST(BidafTest, ParametersByBlock) {
  const ModelConfig config = Parse(R"(, "vocab_size": 1000, "character_filters": 0, "second_biases": true)");
  const std::vector<std::pair<std::string, int64_t>> want{{"embeddings", 300000 + 30000 + 40400},
                                                          {"encoder", 161600},
                                                          {"attention", 601},
                                                          {"modelling", 721600 + 241600},
                                                          {"head", 241600 + 2004}};
  EXPECT_EQ(ParametersByBlock(config, kTask), want);
  EXPECT_EQ(ParametersByBlock(Parse(R"(, "vocab_size": 1000, "fixed_word_embeddings": true)"), kTask)[0].second,
            300000 + 300 + 200 * 64 + 100 * (5 * 64 + 1) + 40000 + 40400);
}

ModelConfig Small(const std::string& changes = "") {
  ModelConfig config = Parse(R"(, "vocab_size": 40, "embedding_size": 12, "hidden_size": 10, "character_vocab_size": 20,
                                "character_embedding_size": 5, "character_filters": 6, "initializer_range": 1)");
  ApplyOverrides(config, changes, "test");
  return config;
}

std::vector<WordExample> Examples() {
  std::vector<WordExample> examples;
  const std::vector<std::pair<int, int>> lengths{{1, 1}, {30, 5}, {7, 12}, {64, 2}, {2, 9}};
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

constexpr const char* kVariants[] = {"", "embedding_map=false,question_to_context=maximum,end_pointer=attended_start",
                                     "character_filters=0,second_biases=true,fixed_word_embeddings=true"};

// Bit for bit, with dropout too: a word's mask is that of its id and letters, a token's that of its example and place.
TEST(BidafTest, AnExampleIsItsOwnAloneOrInABatch) {
  const std::vector<WordExample> examples = Examples();
  for (const char* keys : kVariants) {
    const ModelPtr model = CreateModel(Small(keys), kTask, 1);
    for (const bool train : {false, true}) {
      const PackedBatch batch = BatchOf(examples);
      const Tensor all = Logits(*model, batch, train);
      for (size_t i = 0; i < examples.size(); ++i) {
        const Tensor alone = Logits(*model, BatchOf({examples[i]}, i), train);
        EXPECT_TRUE(torch::equal(alone, all.slice(0, batch.tokens.cu_seqlens[i], batch.tokens.cu_seqlens[i + 1])))
            << "example " << i << ", " << keys << " training " << train;
      }
    }
  }
}

TEST(BidafTest, TheNumberOfThreadsChangesNoBitOfTheResult) {
  const PackedBatch batch = BatchOf(Examples());
  for (const char* keys : kVariants) {
    const ModelPtr model = CreateModel(Small(keys), kTask, 1);
    Tensor logits;
    for (const int threads : {1, 2, 3}) {
      SetAllThreads(threads);
      const Tensor now = Logits(*model, batch, true);
      EXPECT_TRUE(!logits.defined() || torch::equal(now, logits)) << threads << " threads, " << keys;
      logits = now;
    }
  }
  SetAllThreads(HardwareThreads());
}

TEST(BidafTest, TermsAreThoseOfTheTask) {
  const ModelPtr model = CreateModel(Small(), kTask, 1);
  const PackedBatch batch = BatchOf(Examples());
  const ModelOutput output = model->Forward(batch, {});
  ASSERT_EQ(output.terms.size(), 1u);
  EXPECT_TRUE(torch::equal(output.terms[0], output.loss));
  PackedBatch unlabelled = batch;
  unlabelled.labels = {};
  EXPECT_FALSE(model->Forward(unlabelled, {}).loss.defined());
}

// Linear maps and LSTMs begin as torch's do, uniform in ±1/√in and ±1/√d: their mean square is a third of the bound's.
TEST(BidafTest, NewWeightsAreTorchs) {
  const ModelPtr model = CreateModel(Parse(R"(, "vocab_size": 100)"), kTask, 1);
  const auto largest = [&](const std::string& name, double bound) {
    for (const auto& [own, tensor] : model->NamedParameters()) {
      if (own != name) continue;
      EXPECT_LE(tensor.abs().max().item<double>(), bound) << name;
      EXPECT_NEAR(tensor.square().mean().item<double>(), bound * bound / 3, 0.02 * bound * bound) << name;
      return;
    }
    FAIL() << name;
  };
  largest("modelling.weight_ih_l0_reverse", 0.1);
  largest("embeddings.map.weight", 1 / std::sqrt(400.0));
  largest("embeddings.highway.1.gate.weight", 0.1);
}

TEST(BidafTest, SavesAndLoads) {
  const TempFolder folder;
  for (const char* keys : kVariants) {
    const ModelPtr model = CreateModel(Small(keys), kTask, 1);
    SaveModel(*model, folder.path());
    const ModelPtr loaded = LoadModel(folder.path(), kTask, 0, /*require_head=*/true);
    const PackedBatch batch = BatchOf(Examples());
    EXPECT_TRUE(torch::equal(Logits(*loaded, batch, false), Logits(*model, batch, false)));
    EXPECT_EQ(ToJson(loaded->config()).dump(), ToJson(model->config()).dump());
  }
}

TEST(BidafTest, TakesTheWordsOfANewModel) {
  ModelConfig config = DefaultModelConfig("bidaf", "test");
  FamilyOf(config).take_words(config, {.words = 777, .characters = 55, .vector_width = 50, .fixed = true});
  EXPECT_EQ(config.vocab_size, 777);
  EXPECT_EQ(config.embedding_size, 50);
  EXPECT_EQ(config.own<BidafConfig>().character_vocab_size, 55);
  EXPECT_TRUE(config.own<BidafConfig>().fixed_word_embeddings);
  const std::string table(FamilyOf(config).word_table);
  for (const ParameterSpec& spec : FamilyOf(config).parameters(config, kTask))
    EXPECT_TRUE(spec.name != table || spec.shape == (std::vector<int64_t>{777, 50}));
  FamilyOf(config).take_words(config, {.words = 777, .characters = 55});
  EXPECT_EQ(config.embedding_size, 50) << "as the config says";
}

TEST(BidafTest, RefusesKeysThatDoNotFit) {
  EXPECT_EQ(ErrorOf([] { Parse(R"(, "end_pointer": "boundary")"); }),
            "config.json: \"end_pointer\": expected \"modelling\" or \"attended_start\", got \"boundary\"");
  EXPECT_THAT(ErrorOf([] { Parse(R"(, "pad_token_id": 3)"); }), HasSubstr("\"pad_token_id\": expected 0"));
  EXPECT_THAT(ErrorOf([] { Parse(R"(, "hidden_size": 65536, "embedding_size": 65536)"); }),
              HasSubstr("the sizes ask for"));
  EXPECT_THAT(ErrorOf([] { CreateModel(Small(), Task::kMaskedLm, 1); }), HasSubstr("BidafForQuestionAnswering"));
}

TEST(BidafTest, RefusesBatchesThatDoNotFit) {
  ModelConfig config = Small();
  config.max_position_embeddings = 64;
  const ModelPtr model = CreateModel(config, kTask, 1);
  const PackedBatch good = BatchOf(Examples());
  const auto error = [&](const auto& change) {
    PackedBatch batch = good;
    change(batch);
    return ErrorOf([&] { model->Forward(batch, {}); });
  };
  model->Forward(good, {});
  EXPECT_EQ(error([](PackedBatch& b) { b.further_streams.pop_back(); }),
            "the batch has 3 streams of ids, this model reads 4: tokens, question, words, characters");
  EXPECT_THAT(error([](PackedBatch& b) { b.tokens.ids[3] = 4000; }),
              HasSubstr("context 1, place 2: id 4000 is out of range, expected 0 to "));
  EXPECT_THAT(error([](PackedBatch& b) { b.further_streams[0].ids[0] = -1; }), HasSubstr("question 0, place 0: id -1"));
  EXPECT_EQ(error([](PackedBatch& b) { b.further_streams[1].ids[2] = 40; }),
            "list of words 0, place 2: id 40 is out of range, expected 0 to 39");
  EXPECT_THAT(error([](PackedBatch& b) { b.further_streams[2].ids[0] = 20; }), HasSubstr("word 0, place 0: id 20"));
  EXPECT_EQ(error([](PackedBatch& b) { AppendSequence(b.further_streams[0], {0}); }),
            "the batch has 5 contexts and 6 questions");
  EXPECT_THAT(error([](PackedBatch& b) { AppendSequence(b.further_streams[2], {1}); }),
              HasSubstr("distinct words and the characters of"));
  EXPECT_EQ(error([](PackedBatch& b) { AppendSequence(b.further_streams[1], {1}); }),
            "the batch has 2 lists of distinct words, expected 1");
  EXPECT_EQ(error([](PackedBatch& b) { AppendSequence(b, {}, {}, 5), AppendSequence(b.further_streams[0], {0}); }),
            "context 5 is empty");
  EXPECT_EQ(error([](PackedBatch& b) { b = BatchOf({RandomExample(1, 65, 2)}); }),
            "context 0 has 65 ids, max_position_embeddings is 64");
  EXPECT_EQ(error([](PackedBatch& b) {
              b = BatchOf({RandomExample(1, 3, 2)});
              b.further_streams[2] = {};
              for (int64_t w = 0; w < b.further_streams[1].size(); ++w)
                AppendSequence(b.further_streams[2], std::vector<int32_t>(w == 1 ? 17 : 1, 1));
            }),
            "word 1 has 17 ids, the limit is 16");
}

}  // namespace
}  // namespace lshformer
