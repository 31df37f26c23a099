// Embeddings are trained: the figures get better, the folder is what Sentence-Transformers reads, bad rows are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "jobs/train.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// Words of two languages, one for each other: what belongs together has nothing in common but the training.
constexpr int kPairs = 24;

class EmbeddingTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nquery\n:\n", pairs = "anchor\tpositive\n", scored;
    for (int i = 0; i < kPairs; ++i) {
      const std::string number = std::to_string(i);
      vocabulary += "a" + number + "\nb" + number + "\n";
      pairs += "a" + number + "\tb" + number + "\n";
      for (const int other : {i, (i + 5) % kPairs})
        scored += Json{{"sentence1", "a" + number},
                       {"sentence2", "b" + std::to_string(other)},
                       {"score", other == i ? 0.9 : 0.1}}
                      .dump() +
                  "\n";
    }
    folder_.Write("tokenizer/vocab.txt", vocabulary);
    folder_.Write("pairs.tsv", pairs);
    folder_.Write("scored.jsonl", scored);
  }
  TrainOptions Options(const std::string& file) const {
    TrainOptions options;
    options.task = "sentence-similarity";
    options.model.model_type = "bert";
    options.model.tokenizer_name = folder_ / "tokenizer";
    options.model.config_overrides =
        "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=32,max_position_embeddings=16,"
        "hidden_dropout_prob=0,attention_probs_dropout_prob=0";
    options.folder.output_dir = folder_ / "run";
    options.folder.overwrite_output_dir = true;
    options.train_files = {folder_ / file};
    options.validation_file = folder_ / file;
    options.do_eval = true;
    options.training.per_device_train_batch_size = options.training.per_device_eval_batch_size = 12;
    options.training.max_steps = 40;
    options.training.learning_rate = 1e-2;
    return options;
  }
  std::string Error(const std::string& name, const std::string& rows, const std::string& loss) const {
    folder_.Write(name, rows);
    TrainOptions options = Options(name);
    options.similarity.loss = loss;
    return ErrorOf([&] { RunTrain(options); });
  }
  TempFolder folder_;
};

TEST_F(EmbeddingTrainingTest, PairsAreFound) {
  TrainOptions options = Options("pairs.tsv");
  options.similarity.prompts = R"({"anchor": "query: "})";
  options.similarity.matryoshka_dims = "16,8";
  for (const int64_t chunk : {0, 5}) {
    options.similarity.gradient_cache_chunk = chunk;
    const JobResult result = RunTrain(options);
    EXPECT_GT(result.eval["eval_mrr_at_10"], 0.9) << "chunk " << chunk;
    EXPECT_GT(result.eval["eval_accuracy"], 0.9);
  }
  const Json modules = ReadJsonFile(folder_ / "run/modules.json");
  ASSERT_EQ(modules.size(), 3U);
  EXPECT_THAT(modules[1]["type"].get<std::string>(), EndsWith("Pooling"));
  const Json pooling = ReadJsonFile(folder_ / "run/1_Pooling/config.json");
  EXPECT_EQ(pooling["word_embedding_dimension"], 16);
  EXPECT_EQ(pooling["pooling_mode_mean_tokens"], true);
  EXPECT_EQ(ReadJsonFile(folder_ / "run/config_sentence_transformers.json")["prompts"]["anchor"], "query: ");
}

TEST_F(EmbeddingTrainingTest, ScoresAreFollowed) {
  for (const char* loss : {"", "cosine"}) {
    TrainOptions options = Options("scored.jsonl");
    options.similarity.loss = loss;
    EXPECT_GT(RunTrain(options).eval["eval_pearson"], 0.8) << loss;
  }
}

TEST_F(EmbeddingTrainingTest, ATeachersVectorsAreLearned) {
  RunTrain(Options("pairs.tsv"));
  TrainOptions options = Options("pairs.tsv");
  options.folder.output_dir = folder_ / "student";
  options.similarity.teacher_name_or_path = folder_ / "run";
  options.training.max_steps = 1;
  const double before = RunTrain(options).eval["eval_loss"];
  options.training.max_steps = 80;
  EXPECT_LT(RunTrain(options).eval["eval_loss"], 0.5 * before);
}

TEST_F(EmbeddingTrainingTest, RowsThatALossCannotReadAreTold) {
  EXPECT_THAT(Error("a.tsv", "anchor\tpositive\nx\ty\n", "cosine"), HasSubstr("needs pairs with a score"));
  EXPECT_THAT(Error("a.tsv", "sentence1\tsentence2\tscore\nx\ty\t1\nx\ty\t5\n", "cosine"),
              HasSubstr("a.tsv:3: score 5 is no cosine"));
  EXPECT_THAT(Error("a.tsv", "sentence1\tsentence2\tscore\nx\ty\tmuch\n", ""), HasSubstr("a.tsv:2: score \"much\""));
  EXPECT_THAT(Error("a.tsv", "anchor\tpositive\tnegative\nx\ty\tz\nx\ty\t\n", "triplet"),
              HasSubstr("a.tsv:3: has no negative"));
  EXPECT_THAT(Error("a.tsv", "anchor\tpositive\nx\t\n", ""), HasSubstr("a.tsv:2: \"positive\" is empty"));
  EXPECT_THAT(Error("a.jsonl", "{\"anchor\": \"x\", \"positive\": \"y\"}\n{\"anchor\": \"x\"}\n", ""),
              HasSubstr("a.jsonl:2: \"positive\" is missing"));
  EXPECT_THAT(Error("a.jsonl", "{\"first\": \"x\"}\n", ""), HasSubstr("expected columns sentence1 and sentence2"));
  EXPECT_THAT(Error("a.jsonl", "{\"text\": \"x\"}\n", ""), HasSubstr("a text alone"));
  TrainOptions options = Options("pairs.tsv");
  options.similarity.matryoshka_dims = "32";
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), HasSubstr("matryoshka_dims: expected at most 16"));
  options = Options("pairs.tsv");
  options.similarity.prompts = R"({"anhcor": "x"})";
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), HasSubstr("prompts: \"anhcor\""));
}

}  // namespace
}  // namespace lshformer
