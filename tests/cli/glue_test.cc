// GLUE as a shell sees it: both of MNLI's development sets, the benchmark's files, from three labels to two, several
// seeds in one command.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>

#include "cli/training_run.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class GlueTest : public TrainingRunTest {
 protected:
  void SetUp() override {
    TrainingRunTest::SetUp();
    const char* words[] = {"same", "maybe", "never"};
    const char* labels[] = {"entailment", "neutral", "contradiction"};
    const std::string texts = "index\tsentence1\tsentence2";
    std::string rows;
    for (int i = 0; i < 45; ++i)
      rows += fmt::format("{}\t{}at\t{}\t{}\n", i, static_cast<char>('a' + i % 26), words[i % 3], labels[i % 3]);
    for (const char* file : {"train", "dev_matched"})
      folder_.Write(fmt::format("mnli/{}.tsv", file), texts + "\tgold_label\n" + rows);
    folder_.Write("mnli/dev_mismatched.tsv", texts + "\tgold_label\n0\tcat\tsame\tneutral\n1\tcat\tnever\tneutral\n");
    folder_.Write("mnli/test_matched.tsv", texts + "\n0\tdat\tsame\n1\tcat\tnever\n");
    folder_.Write("mnli/test_mismatched.tsv", texts + "\n0\tdat\tmaybe\n");
    std::string rte = texts + "\tlabel\n";
    for (int i = 0; i < 20; ++i)
      rte += fmt::format("{}\t{}at\t{}\t{}\n", i, static_cast<char>('a' + i), words[i % 3],
                         i % 3 == 0 ? "entailment" : "not_entailment");
    folder_.Write("rte/train.tsv", rte);
    folder_.Write("rte/dev.tsv", rte);
    folder_.Write("rte/test.tsv", texts + "\n0\tdat\tsame\n");
  }
  std::vector<std::string> Mnli(const std::string& output, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--task_name", "mnli", "--data_dir", folder_ / "mnli", "--num_train_epochs", "30",
                             "--learning_rate", "5e-3"});
    return Train(output, more);
  }
  std::vector<std::string> FromCheckpoint(const std::string& output, const std::string& task,
                                          const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{LSHFORMER_BINARY,
                                   "train",
                                   "--no_progress",
                                   "--model_name_or_path",
                                   folder_ / "mnli_run",
                                   "--task_name",
                                   task,
                                   "--data_dir",
                                   folder_ / task,
                                   "--output_dir",
                                   folder_ / output,
                                   "--num_train_epochs",
                                   "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(GlueTest, MnliIsEvaluatedAndPredictedOnBothSets) {
  Succeeds(Mnli("run", {"--do_eval", "--do_predict", "--eval_steps", "20", "--save_steps", "20",
                        "--load_best_model_at_end", "--metric_for_best_model", "accuracy"}));
  const Json eval = Results("run/eval_results.json");
  EXPECT_GE(eval["eval_accuracy"].get<double>(), 0.6);
  EXPECT_EQ(eval["eval_samples"], 45);
  EXPECT_EQ(eval["eval_samples_mm"], 2);
  EXPECT_TRUE(eval.contains("eval_loss_mm"));
  const std::string name = "(entailment|neutral|contradiction)\n";
  EXPECT_THAT(folder_.Read("run/predict_results_mnli.txt"),
              MatchesRegex("index\tprediction\n0\t" + name + "1\t" + name));
  EXPECT_THAT(folder_.Read("run/predict_results_mnli-mm.txt"), MatchesRegex("index\tprediction\n0\t" + name));
  EXPECT_EQ(folder_.Read("run/MNLI-m.tsv"), folder_.Read("run/predict_results_mnli.txt"));
  EXPECT_EQ(folder_.Read("run/MNLI-mm.tsv"), folder_.Read("run/predict_results_mnli-mm.txt"));
  EXPECT_EQ(Results("run/config.json")["id2label"],
            Json({{"0", "entailment"}, {"1", "neutral"}, {"2", "contradiction"}}));
  const Json evaluated = Json::parse(Succeeds({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path",
                                               folder_ / "run", "--task_name", "mnli", "--data_dir", folder_ / "mnli"})
                                         .out);
  for (const char* key : {"eval_accuracy", "eval_loss", "eval_accuracy_mm", "eval_loss_mm", "eval_samples_mm"})
    EXPECT_EQ(evaluated[key], eval[key]) << key;
  // A file given by name is read with the task's columns.
  const Json one =
      Json::parse(Succeeds({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path", folder_ / "run",
                            "--task_name", "mnli", "--validation_file", folder_ / "mnli/dev_mismatched.tsv"})
                      .out);
  EXPECT_EQ(one["eval_loss"], eval["eval_loss_mm"]);
  EXPECT_FALSE(one.contains("eval_loss_mm"));
}

TEST_F(GlueTest, FromThreeLabelsToTwo) {
  Succeeds(Mnli("mnli_run"));
  const std::string refused = Fails(FromCheckpoint("rte_run", "rte"), 1);
  EXPECT_THAT(refused, AllOf(HasSubstr("tensor \"classifier.weight\" has shape [3, 16], expected [2, 16]"),
                             HasSubstr("--ignore_mismatched_sizes draws a new head")));
  EXPECT_FALSE(fs::exists(folder_ / "rte_run"));
  const CommandResult run =
      RunCommand(FromCheckpoint("rte_run", "rte", {"--ignore_mismatched_sizes", "--do_eval", "--do_predict"}));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("its head is for other labels"), HasSubstr("classifier.weight [3, 16]")));
  EXPECT_EQ(run.err.find('\n'), run.err.size() - 1) << "one warning: " << run.err;
  EXPECT_EQ(Results("rte_run/config.json")["id2label"], Json({{"0", "entailment"}, {"1", "not_entailment"}}));
  EXPECT_THAT(folder_.Read("rte_run/RTE.tsv"), StartsWith("index\tprediction\n0\t"));
  // Three labels where two are asked, without training.
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path", folder_ / "mnli_run",
                     "--task_name", "rte", "--data_dir", folder_ / "rte"},
                    1),
              HasSubstr("--task_name rte: its labels are entailment, not_entailment"));
  EXPECT_THAT(Fails(Train("new", {"--ignore_mismatched_sizes"}), 2),
              HasSubstr("--ignore_mismatched_sizes: needs --model_name_or_path"));
}

TEST_F(GlueTest, SubmissionsHaveTheTasksNumbers) {
  Succeeds(Train("run", {"--do_predict"}));
  EXPECT_EQ(folder_.Read("run/SST-2.tsv"), "index\tprediction\n0\t1\n1\t0\n2\t1\n");
}

TEST_F(GlueTest, SeveralSeedsAreSoManyRunsAndASummary) {
  const CommandResult run = Succeeds(Train("out", {"--seeds", "1,2,3", "--do_eval", "--num_train_epochs", "2"}));
  EXPECT_THAT(run.out, AllOf(StartsWith("3 seeds"), HasSubstr("eval_accuracy"), HasSubstr("best by eval_accuracy: ")));
  const Json summary = Results("out/all_results.json");
  double sum = 0, squares = 0, best = 0;
  for (const char* seed : {"1", "2", "3"}) {
    const std::string folder = fmt::format("out/seed-{}", seed);
    const double accuracy = Results(folder + "/eval_results.json")["eval_accuracy"];
    sum += accuracy, squares += accuracy * accuracy, best = std::max(best, accuracy);
    EXPECT_EQ(Results(folder + "/training_args.json")["seed"], std::stoi(seed));
  }
  EXPECT_NEAR(summary["eval_accuracy"]["mean"].get<double>(), sum / 3, 1e-12);
  EXPECT_NEAR(std::pow(summary["eval_accuracy"]["std"].get<double>(), 2), (squares - sum * sum / 3) / 2, 1e-9);
  EXPECT_EQ(summary["eval_accuracy"]["best"], best);
  EXPECT_TRUE(fs::exists(summary["best_model"].get<std::string>() + "/model.safetensors"));
  // Each is the run that --seed makes alone.
  Succeeds(Train("alone", {"--seed", "2", "--do_eval", "--num_train_epochs", "2"}));
  EXPECT_EQ(Weights("alone"), Weights("out/seed-2"));
  EXPECT_NE(Weights("out/seed-1"), Weights("out/seed-2"));
  EXPECT_THAT(Fails(Train("out", {"--seeds", "1,2,3", "--do_eval", "--num_train_epochs", "2"}), 1),
              HasSubstr("not empty"));
  Succeeds(
      Pretrain("text", {"--seeds", "4,5", "--max_steps", "3", "--do_eval", "--validation_file", folder_ / "text.txt"}));
  EXPECT_EQ(Results("text/all_results.json")["metric_for_best_model"], "perplexity");
}

TEST_F(GlueTest, SeedsThatAreStoppedGoOn) {
  const std::vector<std::string> more{"--do_eval", "--num_train_epochs", "40"};
  const auto seeds = [&](const std::string& output, const std::string& resume) {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--seeds", "1,2"});
    if (!resume.empty()) words.insert(words.end(), {"--resume_from_checkpoint", resume});
    return Train(output, words);
  };
  Succeeds(seeds("whole", ""));
  const auto second_began = [&] { return fs::exists(folder_ / "stopped/seed-2/training_args.json"); };
  const CommandResult stopped = Interrupt(seeds("stopped", ""), SIGTERM, std::chrono::minutes(2), second_began);
  if (stopped.status == 0) GTEST_SKIP() << "the second run was over before the signal came";
  EXPECT_EQ(stopped.status, 128 + SIGTERM) << stopped.err;
  EXPECT_FALSE(fs::exists(folder_ / "stopped/all_results.json"));
  const auto written = fs::last_write_time(folder_ / "stopped/seed-1/model.safetensors");
  Succeeds(seeds("stopped", "auto"));
  EXPECT_EQ(fs::last_write_time(folder_ / "stopped/seed-1/model.safetensors"), written);
  EXPECT_EQ(Weights("stopped/seed-2"), Weights("whole/seed-2"));
  EXPECT_EQ(Results("stopped/all_results.json")["eval_loss"], Results("whole/all_results.json")["eval_loss"]);
}

TEST_F(GlueTest, WrongSeedsAreNamed) {
  const auto wrong = [&](const std::vector<std::string>& more) { return Fails(Train("run", more), 2); };
  EXPECT_THAT(wrong({"--seeds", ""}), HasSubstr("--seeds: expected numbers from 0 to 2^64 - 1"));
  EXPECT_THAT(wrong({"--seeds", "1,x"}), AllOf(HasSubstr("--seeds: expected numbers"), HasSubstr("got \"x\"")));
  EXPECT_THAT(wrong({"--seeds", "1,2,1"}), HasSubstr("--seeds: 1 stands there twice"));
  EXPECT_THAT(wrong({"--seeds", "1,2", "--seed", "3"}), HasSubstr("--seeds: instead of --seed"));
  EXPECT_THAT(wrong({"--seeds", "1", "--resume_from_checkpoint", "somewhere"}),
              HasSubstr("--resume_from_checkpoint: expected auto beside --seeds"));
  Fails(Train("run", {"--seeds", "1,2", "--data_dir", folder_ / "nothing"}), 1);
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "not even empty";
  Succeeds(Train("run", {"--max_steps", "1"}));
  EXPECT_THAT(Fails(Train("run", {"--seeds", "1,2", "--overwrite_output_dir"}), 1), HasSubstr("holds a single run"));
}

}  // namespace
}  // namespace lshformer::cli
