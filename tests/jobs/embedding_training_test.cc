// Embeddings are trained: the figures get better, the folder is what Sentence-Transformers reads, bad rows are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "infer/pipeline.h"
#include "jobs/evaluate.h"
#include "jobs/search/search.h"
#include "jobs/train.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

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

// Words are others, and so are their numbers: each model has its own tokenizer.
TEST_F(EmbeddingTrainingTest, ATeacherMayHaveAnotherVocabulary) {
  RunTrain(Options("pairs.tsv"));
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nquery\n:\n";
  for (int i = kPairs - 1; i >= 0; --i) vocabulary += "b" + std::to_string(i) + "\na" + std::to_string(i) + "\n";
  folder_.Write("other/vocab.txt", vocabulary);
  TrainOptions options = Options("pairs.tsv");
  options.folder.output_dir = folder_ / "student";
  options.model.tokenizer_name = folder_ / "other";
  options.similarity.teacher_name_or_path = folder_ / "run";
  options.training.max_steps = 150;
  RunTrain(options);
  PredictOptions predict;
  predict.task = PredictTask::kFeatureExtraction;
  const std::vector<TextInput> texts{{"a3"}, {"b7"}, {"a11"}};
  const auto teacher = Pipeline::Load(folder_ / "run", "", predict).Embed(texts);
  const auto student = Pipeline::Load(folder_ / "student", "", predict).Embed(texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    double cosine = 0;
    for (size_t j = 0; j < teacher[i].value.values.size(); ++j)
      cosine += double{teacher[i].value.values[j]} * student[i].value.values[j];
    EXPECT_GT(cosine, 0.8) << texts[i].text;
  }
  options.model.config_overrides =
      "hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=32,max_position_embeddings=16";
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), HasSubstr("teacher_name_or_path: " + (folder_ / "run") +
                                                             " has vectors of 16 numbers, the model's have 32"));
}

// Of a model that was trained with prompts a search needs no flag.
TEST_F(EmbeddingTrainingTest, PromptsAreFoundByASearch) {
  TrainOptions options = Options("pairs.tsv");
  options.similarity.prompts = R"({"anchor": "query: ", "positive": ": "})";
  RunTrain(options);
  const Json saved = ReadJsonFile(folder_ / "run/config_sentence_transformers.json")["prompts"];
  EXPECT_EQ(saved, (Json{{"anchor", "query: "}, {"positive", ": "}, {"query", "query: "}, {"document", ": "}}));
  folder_.Write("corpus.jsonl", "{\"_id\": \"x\", \"text\": \"b4\"}\n");
  SearchJob job;
  job.model.model_name_or_path = folder_ / "run";
  job.corpus = folder_ / "corpus.jsonl";
  job.query = "a4";
  SearchAnswer own, asked;
  RunSearch(job, [&](const SearchAnswer& answer) { own = answer; });
  job.passages.prompts = R"({"query": "query: ", "corpus": ": "})";
  job.index = folder_ / "asked.index";
  RunSearch(job, [&](const SearchAnswer& answer) { asked = answer; });
  EXPECT_EQ(own.results.at(0).score, asked.results.at(0).score);
  job.passages.prompts = R"({"query": "", "corpus": ""})";
  job.index = folder_ / "none.index";
  RunSearch(job, [&](const SearchAnswer& answer) { asked = answer; });
  EXPECT_NE(own.results.at(0).score, asked.results.at(0).score);
}

// The columns of the training, beside those that evaluate has always read.
TEST_F(EmbeddingTrainingTest, PairsAreEvaluatedByTheColumnsOfTheTraining) {
  const JobResult trained = RunTrain(Options("scored.jsonl"));
  EvaluateJob job;
  job.task = "sentence-similarity";
  job.model.model_name_or_path = folder_ / "run";
  job.validation_file = folder_ / "scored.jsonl";
  EXPECT_NEAR(RunEvaluate(job)["eval_pearson"], trained.eval["eval_pearson"], 1e-5);
  job.validation_file = folder_ / "pairs.tsv";
  EXPECT_THAT(ErrorOf([&] { RunEvaluate(job); }), HasSubstr("pairs.tsv: anchor and positive have no score"));
  job.validation_file = folder_.Write("part.jsonl", R"({"sentence1": "a1", "sentence2": "b1", "score": 1}
{"sentence1": "a1", "sentence2": "b1"}
)");
  EXPECT_THAT(ErrorOf([&] { RunEvaluate(job); }), HasSubstr("part.jsonl: sentence1 and sentence2 have no score"));
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
  ::testing::internal::CaptureStdout();  // the default logger's
  EXPECT_THAT(Error("a.jsonl",
                    R"({"sentence1": "x", "sentence2": "y", "scroe": 1, "idx": 0})"
                    "\n",
                    "cosine"),
              HasSubstr("needs pairs with a score"));
  const std::string told = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(told, HasSubstr("column \"scroe\" is not read (did you mean \"score\"?)"));
  EXPECT_THAT(told, Not(HasSubstr("idx")));
  TrainOptions options = Options("pairs.tsv");
  options.similarity.matryoshka_dims = "32";
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), HasSubstr("matryoshka_dims: expected at most 16"));
  options = Options("pairs.tsv");
  options.similarity.prompts = R"({"anhcor": "x"})";
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), HasSubstr("prompts: \"anhcor\""));
}

}  // namespace
}  // namespace lshformer
