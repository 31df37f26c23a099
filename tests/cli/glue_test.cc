// GLUE as a shell sees it: both of MNLI's development sets, the benchmark's files, from three labels to two, several
// seeds in one command.
#include <fmt/core.h>

#include <filesystem>

#include "cli/training_run.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;
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
    for (const char* file : {"train", "dev_matched", "dev_mismatched"})
      folder_.Write(fmt::format("mnli/{}.tsv", file), texts + "\tgold_label\n" + rows);
    // As many rows, but the labels of the mismatched ones are turned.
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
    more.insert(more.end(), {"--task_name", "mnli", "--data_dir", folder_ / "mnli", "--num_train_epochs", "12",
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
  EXPECT_GE(eval["eval_accuracy"].get<double>(), 0.9);
  EXPECT_EQ(eval["eval_accuracy_mm"], 0.0);
  EXPECT_EQ(eval["eval_samples"], 45);
  EXPECT_EQ(eval["eval_samples_mm"], 2);
  EXPECT_TRUE(eval.contains("eval_loss_mm"));
  EXPECT_EQ(folder_.Read("run/predict_results_mnli.txt"), "index\tprediction\n0\tentailment\n1\tcontradiction\n");
  EXPECT_EQ(folder_.Read("run/predict_results_mnli-mm.txt"), "index\tprediction\n0\tneutral\n");
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

}  // namespace
}  // namespace lshformer::cli
