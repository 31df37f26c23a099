// What the commands do, without the commands: a program that trains, evaluates and asks a classifier.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "jobs/evaluate.h"
#include "jobs/predict/predict.h"
#include "jobs/pretrain.h"
#include "jobs/train.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TrainEvaluateTest : public ::testing::Test {
 protected:
  TrainOptions Options() const {
    TrainOptions options;
    options.model.model_type = "bert";
    options.model.tokenizer_name = tokenizer_;
    options.model.config_overrides =
        "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16,max_position_embeddings=16";
    options.folder.output_dir = folder_ / "run";
    options.train_files = {folder_.Write("train.tsv", Rows(48))};
    options.validation_file = folder_.Write("dev.tsv", Rows(12));
    options.do_eval = true;
    options.training.learning_rate = 5e-3;
    options.training.num_train_epochs = 15;
    options.training.save_steps = 0;
    return options;
  }
  static std::string Rows(int count) {
    std::string rows = "sentence\tlabel\n";
    for (int i = 0; i < count; ++i) {
      const std::string noun(1, static_cast<char>('a' + i % 26));
      rows += (i % 2 == 0 ? "good " : "bad ") + noun + (i % 2 == 0 ? "\tup\n" : "\tdown\n");
    }
    return rows;
  }
  static std::string Vocabulary() {
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) words += std::string(1, letter) + "\n";
    return words;
  }
  TempFolder folder_;
  const std::string vocabulary_ = folder_.Write("tokenizer/vocab.txt", Vocabulary());
  const std::string tokenizer_ = folder_ / "tokenizer";
};

TEST_F(TrainEvaluateTest, WhatIsTrainedIsEvaluatedAndAsked) {
  const TrainOptions options = Options();
  const JobResult trained = RunTrain(options);
  EXPECT_EQ(trained.eval["eval_accuracy"], 1.0);
  EXPECT_EQ(trained.eval["eval_samples"], 12);

  EvaluateJob job;
  job.model.model_name_or_path = options.folder.output_dir;
  job.validation_file = options.validation_file;
  job.output_dir = folder_ / "evaluated";
  const Json metrics = RunEvaluate(job);
  EXPECT_EQ(metrics["eval_loss"], trained.eval["eval_loss"]);
  EXPECT_EQ(ReadJsonFile(folder_ / "evaluated/eval_results.json"), metrics);
  job.max_eval_samples = 5;
  EXPECT_EQ(RunEvaluate(job)["eval_samples"], 5);

  PredictJob ask;
  ask.model_name_or_path = options.folder.output_dir;
  ask.options.task = PredictTask::kTextClassification;
  ask.text = "bad x";
  ask.output = folder_ / "answer.json";
  RunPredict(ask);
  EXPECT_EQ(ReadJsonFile(ask.output)["results"][0]["label"], "down");

  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), HasSubstr("not empty"));
}

// A row has "even" and "early", one of them or none. Of so few rows a model often learns one label alone, whatever
// computes it; from this seed it learns both.
TEST_F(TrainEvaluateTest, SeveralLabelsARow) {
  std::string rows;
  for (int i = 0; i < 52; ++i) {
    std::vector<std::string> labels;
    if (i % 2 == 0) labels.push_back("even");
    if (i / 2 % 2 == 0) labels.push_back("early");
    const std::string text = std::string(i % 2 == 0 ? "good " : "bad ") + (i / 2 % 2 == 0 ? "a" : "b");
    rows += Json{{"text", text}, {"labels", labels}}.dump() + "\n";
  }
  TrainOptions options = Options();
  options.train_files = {folder_.Write("train.jsonl", rows)};
  options.validation_file = options.train_files[0];
  options.test_file = options.train_files[0];
  options.do_predict = true;
  options.model.config_overrides =
      "hidden_size=64,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,max_position_embeddings=16";
  options.training.learning_rate = 2e-3;
  options.training.seed = 1;
  options.training.num_train_epochs = 20;
  options.training.metric_for_best_model = "f1_micro";
  options.training.load_best_model_at_end = true;
  options.training.eval_steps = options.training.save_steps = 70;
  const JobResult trained = RunTrain(options);
  EXPECT_EQ(trained.eval["eval_accuracy"], 1.0) << Json(trained.eval).dump();
  EXPECT_EQ(trained.eval["eval_f1_micro"], 1.0);
  EXPECT_EQ(trained.eval["eval_f1_macro"], 1.0);
  EXPECT_EQ(ReadJsonFile(folder_ / "run/config.json")["problem_type"], "multi_label_classification");
  EXPECT_THAT(ReadFile(folder_ / "run/predict_results.txt"),
              StartsWith("index\tprediction\n0\tearly,even\n1\tearly\n2\teven\n3\t\n4\tearly,even\n"));

  EvaluateJob job;
  job.model.model_name_or_path = options.folder.output_dir;
  job.validation_file = options.validation_file;
  EXPECT_EQ(RunEvaluate(job)["eval_loss"], trained.eval["eval_loss"]);
  job.validation_file = folder_.Write("odd.jsonl", R"({"text": "a", "labels": ["odd"]})");
  EXPECT_THAT(ErrorOf([&] { RunEvaluate(job); }),
              HasSubstr("odd.jsonl:1: label \"odd\" is unknown, known: early, even"));
  job.validation_file = folder_ / "dev.tsv";
  EXPECT_THAT(ErrorOf([&] { RunEvaluate(job); }), HasSubstr("dev.tsv:2: has \"label\", expected several labels a row"));
}

TEST_F(TrainEvaluateTest, AModelOfOneTypeTakesNoSecondText) {
  TrainOptions options = Options();
  options.model.config_overrides += ",type_vocab_size=1";
  options.train_files = {folder_.Write("pairs.jsonl", R"({"sentence1": "a", "sentence2": null, "label": "x"}
{"sentence1": "a", "sentence2": "b", "label": "y"})")};
  options.validation_file = options.train_files[0];
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }),
              HasSubstr("pairs.jsonl:2: has a second text (\"sentence2\"), the model takes none (type_vocab_size 1)"));
}

// Known before the text is read, which here is none.
TEST_F(TrainEvaluateTest, AModelOfOneTypeIsNotPretrainedOnPairs) {
  PretrainOptions options;
  options.model = Options().model;
  options.model.config_overrides += ",type_vocab_size=1";
  options.folder.output_dir = folder_ / "run";
  options.train_files = {folder_.Write("empty.txt", "")};
  options.training.max_steps = 1;
  for (const char* objective : {"mlm+nsp", "mlm+sop"}) {
    options.objective = objective;
    EXPECT_THAT(ErrorOf([&] { RunPretrain(options); }),
                AllOf(StartsWith("objective: " + std::string(objective)), HasSubstr("type_vocab_size 1")));
  }
}

// In a test file nobody reads labels, whatever stands there.
TEST_F(TrainEvaluateTest, TestFilesNeedNoLabels) {
  TrainOptions options = Options();
  options.do_predict = true;
  options.training.max_steps = 1;
  options.test_file =
      folder_.Write("test.jsonl", "{\"sentence\": \"good a\", \"label\": null}\n{\"sentence\": \"bad\"}\n");
  RunTrain(options);
  const std::string predicted = ReadFile(folder_ / "run/predict_results.txt");
  EXPECT_EQ(std::count(predicted.begin(), predicted.end(), '\n'), 3) << predicted;
}

TEST_F(TrainEvaluateTest, ContradictionsAreRefusedBeforeAnyWork) {
  EvaluateJob job;
  const auto refused = [&] { return ErrorOf([&] { RunEvaluate(job); }); };
  EXPECT_THAT(refused(), StartsWith("model_name_or_path"));
  job.model.model_name_or_path = folder_ / "nothing";
  EXPECT_THAT(refused(), HasSubstr("validation_file, or data_dir"));
  job.validation_file = folder_ / "dev.tsv";
  EXPECT_THAT(refused(), HasSubstr("nothing: no such folder"));
  job.task = "guessing";
  EXPECT_THAT(refused(), AllOf(StartsWith("task: expected"), HasSubstr("got \"guessing\"")));
  job = EvaluateJob();
  job.model.model_name_or_path = folder_ / "nothing";
  job.data_dir = folder_.path(), job.task_name = "sst2", job.task = "question-answering";
  EXPECT_THAT(refused(), HasSubstr("validation_file: required for question-answering"));
}

}  // namespace
}  // namespace lshformer
