// A reranker is trained: passages come into the order of their labels, bad rows are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/json.h"
#include "jobs/evaluate.h"
#include "jobs/train.h"
#include "train/listwise_loss.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ListwiseLoss, IsTheCrossEntropyOfTwoSoftmaxes) {
  const std::vector<double> scores{0.5, -1, 2, 1, 1}, labels{1, 0, 0, 3, 0};
  const std::vector<int32_t> borders{0, 3, 5};
  double want = 0;
  for (size_t query = 0; query < 2; ++query) {
    const auto begin = static_cast<size_t>(borders[query]), end = static_cast<size_t>(borders[query + 1]);
    double of_labels = 0, of_scores = 0;
    for (size_t i = begin; i < end; ++i) of_labels += std::exp(labels[i]), of_scores += std::exp(scores[i]);
    for (size_t i = begin; i < end; ++i)
      want -= std::exp(labels[i]) / of_labels * std::log(std::exp(scores[i]) / of_scores) / 2;
  }
  const torch::Tensor given = torch::tensor(scores, torch::kFloat64).requires_grad_(true);
  const torch::Tensor loss = ListwiseLossOf(given, torch::tensor(labels, torch::kFloat64), borders);
  EXPECT_NEAR(loss.item<double>(), want, 1e-12);
  loss.backward();
  EXPECT_NEAR(given.grad().slice(0, 0, 3).sum().item<double>(), 0, 1e-12);
}

class ListwiseTrainingTest : public ::testing::Test {
 protected:
  TrainOptions Options() const {
    TrainOptions options;
    options.similarity.loss = "listwise";
    options.model.model_type = "bert";
    options.model.tokenizer_name = folder_ / "tokenizer";
    options.model.config_overrides =
        "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=32,max_position_embeddings=16,"
        "hidden_dropout_prob=0,attention_probs_dropout_prob=0";
    options.folder.output_dir = folder_ / "run";
    options.folder.overwrite_output_dir = true;
    options.train_files = {folder_ / "lists.jsonl"};
    options.validation_file = folder_ / "lists.jsonl";
    options.do_eval = true;
    options.training.max_steps = 60;
    options.training.learning_rate = 1e-2;
    return options;
  }
  void SetUp() override {
    folder_.Write("tokenizer/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nq\ngood\nfair\nbad\n");
    folder_.Write("lists.jsonl",
                  "{\"query\": \"q\", \"passages\": [\"bad\", \"good\", \"fair\"], \"labels\": [0, 3, 1]}\n"
                  "{\"query\": \"q q\", \"passages\": [\"fair\", \"bad\"], \"labels\": [1, 0]}\n");
  }
  std::string Error(const std::string& rows) const {
    folder_.Write("lists.jsonl", rows);
    return ErrorOf([&] { RunTrain(Options()); });
  }
  testing::TempFolder folder_;
};

TEST_F(ListwiseTrainingTest, PassagesComeIntoTheOrderOfTheirLabels) {
  const JobResult result = RunTrain(Options());
  EXPECT_NEAR(result.eval["eval_ndcg_at_10"], 1, 1e-9);
  EXPECT_NEAR(result.eval["eval_mrr_at_10"], 1, 1e-9);
  EXPECT_EQ(ReadJsonFile(folder_ / "run/config.json").value("id2label", Json::object()).size(), 1U);
}

// The rows say that a list is judged; the figures are the training's.
TEST_F(ListwiseTrainingTest, AModelIsEvaluatedOnLists) {
  const JobResult trained = RunTrain(Options());
  EvaluateJob job;
  job.model.model_name_or_path = folder_ / "run";
  job.task = "text-classification";
  job.validation_file = folder_ / "lists.jsonl";
  const Figures figures = RunEvaluate(job);
  for (const char* key : {"eval_loss", "eval_ndcg_at_10", "eval_mrr_at_10"})
    EXPECT_NEAR(figures[key], trained.eval[key], 1e-6) << key;
  EXPECT_EQ(figures["eval_samples"], 2);
  job.max_eval_samples = 1;
  EXPECT_EQ(RunEvaluate(job)["eval_samples"], 1);
  job.compare_exact = true;
  EXPECT_THAT(ErrorOf([&] { RunEvaluate(job); }), HasSubstr("compare_exact"));
}

TEST_F(ListwiseTrainingTest, PredictionsAreAnotherCommands) {
  TrainOptions options = Options();
  options.do_predict = true;
  options.test_file = folder_ / "lists.jsonl";
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), HasSubstr("do_predict: is not for loss listwise"));
}

TEST_F(ListwiseTrainingTest, BadRowsAreTold) {
  EXPECT_THAT(Error("{\"query\": \"q\", \"passages\": [\"a\", \"b\"], \"labels\": [1]}"),
              EndsWith("lists.jsonl:1: 2 passages, but 1 labels"));
  EXPECT_THAT(Error("{\"query\": \"q\", \"passages\": [\"a\"], \"labels\": [1]}"), HasSubstr("two passages or more"));
  EXPECT_THAT(Error("{\"query\": \"q\", \"passages\": [\"a\", 3], \"labels\": [1, 0]}"), HasSubstr("\"passages\"[1]"));
  EXPECT_THAT(Error("{\"query\": \"q\", \"passages\": [\"a\", \"b\"], \"labels\": [1, -1]}"),
              HasSubstr("\"labels\"[1]"));
  EXPECT_THAT(Error("{\"passages\": [\"a\", \"b\"], \"labels\": [1, 0]}"), HasSubstr("\"query\" is missing"));
}

}  // namespace
}  // namespace lshformer
