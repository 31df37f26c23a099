// Questions with options from the first file to the answer, on the synthetic set and on RACE's layout.
#include "data/multiple_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "jobs/evaluate.h"
#include "jobs/predict/predict.h"
#include "jobs/train.h"
#include "synth/synth.h"
#include "synth/words.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::HasSubstr;

class MultipleChoiceTest : public ::testing::Test {
 protected:
  // The questions about gems among those of the set: which things are gems is learned in a second.
  std::string Synthetic(const char* name, int64_t examples, uint64_t seed) const {
    std::string text;
    const auto add = [&](std::string_view line, int64_t) {
      if (line.find("Which gem was hidden?") != line.npos) text += line;
    };
    WriteSyntheticChoices(add, examples, seed);
    return folder_.Write(name, text);
  }
  std::string Tokenizer() const {
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n?\nhid\nthe\nwhich\nwas\nhidden\n";
    for (const synth::Person& person : synth::People()) {
      words += static_cast<char>(person.name[0] - 'A' + 'a');
      words += std::string(person.name.substr(1)) + "\n";
    }
    for (const synth::Kind& kind : synth::Kinds()) {
      words += std::string(kind.name) + "\n";
      for (const std::string_view member : kind.members) words += std::string(member) + "\n";
    }
    folder_.Write("tokenizer/vocab.txt", words);
    return folder_ / "tokenizer";
  }
  TrainOptions Options(const char* name) const {
    TrainOptions options;
    options.task = "multiple-choice";
    options.model.model_type = "bert";
    options.model.tokenizer_name = Tokenizer();
    options.model.config_overrides =
        "hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,max_position_embeddings=32,"
        "hidden_dropout_prob=0,attention_probs_dropout_prob=0,initializer_range=0.1";
    options.folder.output_dir = folder_ / name;
    options.training.save_steps = 0;
    options.do_eval = true;
    return options;
  }
  TempFolder folder_;
};

// Chance is 1/4; whoever knows the gems is right half the time. Of 200 questions 0.4 is five standard deviations above
// chance.
TEST_F(MultipleChoiceTest, ASmallModelLearnsTheSyntheticSet) {
  TrainOptions options = Options("run");
  options.train_files = {Synthetic("train.jsonl", 2400, 42)};
  options.validation_file = Synthetic("dev.jsonl", 1600, 7);
  options.training.per_device_train_batch_size = 8;
  options.training.learning_rate = 1e-2;
  options.training.num_train_epochs = 4;
  const JobResult trained = RunTrain(options);
  EXPECT_GE(trained.eval["eval_accuracy"], 0.4);
  EXPECT_LE(trained.eval["eval_loss"], 0.8) << "ln 2 of two gems, ln 4 of four things";
  const ChoiceData asked = ReadChoices(options.validation_file, /*labelled=*/true);
  const size_t questions = asked.questions.size();
  ASSERT_GT(questions, 150u);
  EXPECT_EQ(trained.eval["eval_samples"], questions) << "questions, not options";
  EXPECT_EQ(ReadJsonFile(folder_ / "run/config.json")["architectures"][0], "BertForMultipleChoice");

  EvaluateJob job;  // the head is the folder's
  job.model.model_name_or_path = options.folder.output_dir;
  job.validation_file = options.validation_file;
  for (const int batch_size : {1, 7}) {
    job.batch_size = batch_size;
    const Json metrics = RunEvaluate(job);
    EXPECT_EQ(metrics["eval_accuracy"], trained.eval["eval_accuracy"]);
    EXPECT_NEAR(metrics["eval_loss"].get<double>(), trained.eval["eval_loss"], 1e-6);
  }

  // predict chooses what evaluate counts.
  PredictJob ask;
  ask.model_name_or_path = options.folder.output_dir;
  ask.options.task = PredictTask::kMultipleChoice;
  ask.input = options.validation_file;
  ask.output = folder_ / "answers.jsonl";
  RunPredict(ask);
  std::istringstream lines(folder_.Read("answers.jsonl"));
  int right = 0;
  size_t number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    const Json results = ParseJson(line, "answer")["results"];
    ASSERT_EQ(results.size(), 4u);
    double sum = 0;
    for (const Json& result : results) sum += result["score"].get<double>();
    EXPECT_NEAR(sum, 1, 1e-5);
    right += results[0]["label"] == asked.questions[number].label;
  }
  EXPECT_EQ(number, questions);
  EXPECT_DOUBLE_EQ(right / static_cast<double>(questions), trained.eval["eval_accuracy"]);
}

// RACE's folders: figures by level, predictions of the test questions, whose answers are not read.
TEST_F(MultipleChoiceTest, RaceIsReadFromItsFolder) {
  const auto race = [&](const std::string& name, int questions, const char* answer) {
    Json article{{"article", "Karla hid the amber."}, {"id", name}};
    for (int q = 0; q < questions; ++q) {
      article["questions"].push_back("Which _ was hidden?");
      article["options"].push_back({"gem", "bird", "tool"});
      article["answers"].push_back(answer);
    }
    folder_.Write(name, article.dump(2));
  };
  race("race/train/middle/1.txt", 4, "A"), race("race/train/high/1.txt", 6, "A");
  race("race/dev/middle/1.txt", 3, "A"), race("race/dev/high/1.txt", 1, "B");
  race("race/test/high/1.txt", 2, "?");
  TrainOptions options = Options("run");
  options.data_dir = folder_ / "race";
  options.do_predict = true;
  options.training.learning_rate = 1e-2;
  options.training.num_train_epochs = 10;
  const JobResult trained = RunTrain(options);
  EXPECT_EQ(trained.train["train_samples"], 10);
  EXPECT_EQ(trained.eval["eval_accuracy_middle"], 1.0);
  EXPECT_EQ(trained.eval["eval_accuracy_high"], 0.0);
  EXPECT_EQ(trained.eval["eval_accuracy"], 0.75);
  EXPECT_EQ(folder_.Read("run/predict_results.txt"), "index\tprediction\n0\t0\n1\t0\n");
  EvaluateJob job;
  job.task = "multiple-choice";
  job.model.model_name_or_path = options.folder.output_dir;
  job.data_dir = options.data_dir;
  EXPECT_EQ(RunEvaluate(job)["eval_accuracy_high"], 0.0);
  job.task.clear();  // as the model's head says
  EXPECT_EQ(RunEvaluate(job)["eval_accuracy_high"], 0.0);
  job.data_dir.clear(), job.validation_file = folder_ / "race/dev/middle";
  const Json middle = RunEvaluate(job);
  EXPECT_EQ(middle["eval_accuracy"], 1.0);
  EXPECT_FALSE(middle.contains("eval_accuracy_high"));
}

TEST_F(MultipleChoiceTest, WrongOptionsAndDataAreRefused) {
  const auto wrong = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = Options("refused");
    options.train_files = {Synthetic("train.jsonl", 60, 1)};
    options.validation_split_percentage = 50;
    change(options);
    return ErrorOf([&] { RunTrain(options); });
  };
  EXPECT_THAT(wrong([](TrainOptions& o) { o.task_name = "rte"; }), HasSubstr("task_name: is for task"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.train_files.clear(); }), HasSubstr("train_file or data_dir: required"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.max_seq_length = 4; }), HasSubstr("max_seq_length: expected 5 to 32"));
  EXPECT_THAT(wrong([&](TrainOptions& o) {
                o.train_files = {
                    folder_.Write("one.jsonl", R"({"context": "a", "question": "b", "options": ["c"], "label": 0})")};
              }),
              HasSubstr("one.jsonl:1: expected 2 to 26 options, got 1"));
  EXPECT_THAT(wrong([&](TrainOptions& o) {
                o.train_files.clear(), o.validation_split_percentage = 0, o.data_dir = folder_ / "nothing";
              }),
              HasSubstr("nothing/train: no such folder"));
  EvaluateJob job;
  job.task = "multiple-choice", job.model.model_name_or_path = folder_ / "nothing", job.data_dir = "x",
  job.task_name = "rte";
  EXPECT_THAT(ErrorOf([&] { RunEvaluate(job); }), HasSubstr("task_name: is for task text-classification"));
  PredictJob ask;
  ask.options.task = PredictTask::kMultipleChoice;
  ask.text = "a";
  EXPECT_THAT(ErrorOf([&] { RunPredict(ask); }), HasSubstr("text: task multiple-choice takes input"));
}

}  // namespace
}  // namespace lshformer
