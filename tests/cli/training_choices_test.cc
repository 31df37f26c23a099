// Training as a shell sees it: regression, averages of weights, files of flags, refusals.
#include <fmt/core.h>

#include <filesystem>

#include "cli/training_run.h"
#include "io/safetensors.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(TrainingRunTest, RegressionFromTrainingToItsFiles) {
  // The score is how many of three words are "good"; GLUE's columns around it.
  const std::string header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2";
  std::string train = header + "\tscore\n", dev = train, test = header + "\n";
  for (int i = 0; i < 80; ++i) {
    const int good = i * 7 / 3 % 4;
    std::string words;
    for (int word = 0; word < 3; ++word) words += word < good ? "good " : "bad ";
    const std::string row =
        fmt::format("{}\tg\tf\t2012\t1\tnone\tnone\t{}\t{}at", i, words, static_cast<char>('a' + i % 26));
    (i < 64 ? train : dev) += fmt::format("{}\t{:.3f}\n", row, good * 5 / 3.0);
    if (i >= 64) test += row + "\n";
  }
  folder_.Write("sts/train.tsv", train);
  folder_.Write("sts/dev.tsv", dev);
  folder_.Write("sts/test.tsv", test);
  const std::vector<std::string> task{"--task_name", "stsb", "--data_dir", folder_ / "sts"};
  std::vector<std::string> more = task;
  more.insert(more.end(),
              {"--do_eval", "--do_predict", "--num_train_epochs", "25", "--learning_rate", "5e-3", "--eval_steps", "50",
               "--save_steps", "50", "--load_best_model_at_end", "--metric_for_best_model", "mse"});
  Succeeds(Train("run", more));
  const Json eval = Results("run/eval_results.json");
  EXPECT_GT(eval["eval_pearson"].get<double>(), 0.9);
  EXPECT_NEAR(eval["eval_combined_score"].get<double>(),
              (eval["eval_pearson"].get<double>() + eval["eval_spearmanr"].get<double>()) / 2, 1e-12);
  const Json config = Results("run/config.json");
  EXPECT_EQ(config["problem_type"], "regression");
  EXPECT_EQ(config["id2label"], Json({{"0", "LABEL_0"}}));
  // A new process finds the same figures, and the file of predictions has them but for its three decimals.
  std::vector<std::string> words{LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path",
                                 folder_ / "run"};
  words.insert(words.end(), task.begin(), task.end());
  EXPECT_EQ(Json::parse(Succeeds(words).out)["eval_spearmanr"], eval["eval_spearmanr"]);
  const Json scored =
      Json::parse(Succeeds({LSHFORMER_BINARY, "evaluate", "--task_name", "stsb", "--predictions",
                            folder_ / "run/predict_results_stsb.txt", "--references", folder_ / "sts/dev.tsv"})
                      .out);
  EXPECT_NEAR(scored["pearson"].get<double>(), eval["eval_pearson"].get<double>(), 1e-4);
  EXPECT_NEAR(scored["mse"].get<double>(), eval["eval_loss"].get<double>(), 1e-2);
  // HF's pipeline: one label, the raw score.
  const auto answer = [&](const std::string& text) {
    return Json::parse(Succeeds({LSHFORMER_BINARY, "predict", "--model_name_or_path", folder_ / "run", "--task",
                                 "text-classification", "--text", text, "--text_pair", "cat"})
                           .out)["results"];
  };
  const Json good = answer("good good good"), bad = answer("bad bad bad");
  ASSERT_EQ(good.size(), 1u);
  EXPECT_EQ(good[0]["label"], "LABEL_0");
  EXPECT_GT(good[0]["score"].get<double>(), bad[0]["score"].get<double>() + 2);
  // What cannot be: classes for a regression, and the other way round.
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "evaluate", "--no_progress", "--model_name_or_path", folder_ / "run",
                     "--task_name", "sst2", "--data_dir", folder_ / "glue"},
                    1),
              HasSubstr("--task_name sst2: its labels are classes"));
  folder_.Write("sts/dev.tsv", dev + "99\tg\tf\t2012\t1\tnone\tnone\ta\tb\thigh\n");
  EXPECT_THAT(Fails(Train("other", more), 1), HasSubstr("dev.tsv:18: label \"high\": expected a finite number"));
}

// A changed learning rate is worth a warning, another seed refuses: one line, the refusal.
TEST_F(TrainingRunTest, ARefusedResumeSaysOneLine) {
  Succeeds(Pretrain("run", {"--max_steps", "10"}));
  fs::remove(folder_ / "run/trainer_state.json");
  fs::resize_file(folder_ / "run/checkpoint-10/optimizer.safetensors", 1000);  // a warning of its own
  const std::vector<std::string> changed{"--resume_from_checkpoint", "auto", "--max_steps", "12",
                                         "--learning_rate",          "2e-3"};
  std::vector<std::string> refused = changed;
  refused.insert(refused.end(), {"--seed", "43"});
  EXPECT_THAT(Fails(Pretrain("run", refused), 2), HasSubstr("--seed: "));
  const CommandResult result = RunCommand(Pretrain("run", changed));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("checkpoint-10: skipped"), HasSubstr("--learning_rate: ")));
}

TEST_F(TrainingRunTest, ItsArgumentsAreAFileOfFlags) {
  Succeeds(Train("run", {"--do_eval", "--ema_decay", "0.9", "--eval_steps", "10", "--save_steps", "20",
                         "--load_best_model_at_end", "--metric_for_best_model", "accuracy", "--seed", "5"}));
  Succeeds({LSHFORMER_BINARY, "train", folder_ / "run/training_args.json", "--output_dir", folder_ / "again",
            "--no_progress", "--threads", "2"});
  EXPECT_EQ(Weights("run"), Weights("again"));
  EXPECT_EQ(History("run"), History("again"));
  EXPECT_EQ(folder_.Read("run/training_args.json"), folder_.Read("again/training_args.json"));
  Succeeds(
      Pretrain("text", {"--attention", "reformer", "--lsh_buckets", "2,2", "--lsh_chunk", "4", "--max_steps", "3"}));
  Succeeds({LSHFORMER_BINARY, "pretrain", folder_ / "text/training_args.json", "--output_dir", folder_ / "text2",
            "--no_progress", "--threads", "2"});
  EXPECT_EQ(Weights("text"), Weights("text2"));
}

TEST_F(TrainingRunTest, MuonGoesOnFromItsCheckpoint) {
  const std::vector<std::string> muon{"--optim", "muon", "--max_steps", "10"};
  Succeeds(Pretrain("whole", muon));
  Succeeds(Pretrain("adamw", {"--max_steps", "10"}));
  EXPECT_NE(Weights("whole"), Weights("adamw"));
  std::vector<std::string> more = muon;
  more.insert(more.end(), {"--resume_from_checkpoint", folder_ / "whole/checkpoint-5"});
  Succeeds(Pretrain("rest", more));
  EXPECT_EQ(Weights("rest"), Weights("whole"));
  EXPECT_EQ(Results("whole/training_args.json")["optim"], "muon");
  EXPECT_EQ(Results("whole/checkpoint-5/optimizer.json")["type"], "muon");
  more[1] = "adamw";
  EXPECT_THAT(Fails(Pretrain("other", more), 2), HasSubstr("--optim: "));
}

TEST_F(TrainingRunTest, AnAverageOfTheWeightsIsAnotherModel) {
  Succeeds(Train("plain", {"--num_train_epochs", "2"}));
  Succeeds(Train("averaged", {"--num_train_epochs", "2", "--ema_decay", "0.9"}));
  EXPECT_NE(Weights("plain"), Weights("averaged"));
  for (const char* bad : {"0", "1", "-0.1", "nan"})
    EXPECT_THAT(Fails(Train("bad", {"--ema_decay", bad}), 2), HasSubstr("--ema_decay: expected"));
  EXPECT_THAT(
      Fails(Train("averaged", {"--num_train_epochs", "3", "--ema_decay", "0.5", "--resume_from_checkpoint", "auto"}),
            2),
      HasSubstr("--ema_decay: "));
}

// A state that says "finished" beside no model, or half of one, is not believed.
TEST_F(TrainingRunTest, AFinishedRunWithoutItsModelIsMadeAgain) {
  const std::vector<std::string> words =
      Train("run", {"--save_steps", "2", "--max_steps", "4", "--resume_from_checkpoint", "auto"});
  Succeeds(words);
  const std::string weights = Weights("run");
  const auto warning = [](const std::vector<std::string>& command) {
    const testing::CommandResult result = testing::RunCommand(command);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  fs::remove(folder_ / "run/model.safetensors");
  EXPECT_THAT(warning(words), HasSubstr("model.safetensors: no such file; taken as not finished"));
  EXPECT_EQ(Weights("run"), weights);
  fs::resize_file(folder_ / "run/model.safetensors", 100);
  EXPECT_THAT(warning(words), HasSubstr("taken as not finished"));
  EXPECT_EQ(Weights("run"), weights);
  // Weights of more layers than the config has.
  const std::string config = ReadFile(folder_ / "run/config.json"), key = "\"num_hidden_layers\": ";
  const size_t at = config.find(key);
  ASSERT_NE(at, config.npos);
  folder_.Write("run/config.json", config.substr(0, at + key.size()) + "1" + config.substr(config.find(',', at)));
  EXPECT_THAT(warning({LSHFORMER_BINARY, "predict", "--model_name_or_path", folder_ / "run", "--task",
                       "text-classification", "--text", "good"}),
              HasSubstr("has more layers than the 1 of config.json"));
}

// A finished run that is asked for other evaluation data, or for all of it, evaluates anew and trains no more.
TEST_F(TrainingRunTest, OtherEvaluationDataAreEvaluated) {
  std::string turned = ReadFile(folder_ / "glue/dev.tsv");
  for (char& c : turned) c = c == '1' ? '0' : c == '0' ? '1' : c;
  folder_.Write("turned.tsv", turned);
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"--do_eval", "--eval_steps",
                                   "2",         "--save_steps",
                                   "2",         "--num_train_epochs",
                                   "1",         "--max_steps",
                                   "4",         "--resume_from_checkpoint",
                                   "auto"};
    words.insert(words.end(), more.begin(), more.end());
    Succeeds(Train("run", words));
    return Results("run/eval_results.json");
  };
  const Json few = train({"--max_eval_samples", "3"});
  EXPECT_EQ(few["eval_samples"], 3);
  const std::string weights = Weights("run");
  const Json all = train({});
  EXPECT_GT(all["eval_samples"].get<int>(), 3);
  const Json other = train({"--validation_file", folder_ / "turned.tsv"});
  EXPECT_EQ(other["eval_samples"], all["eval_samples"]);
  EXPECT_NEAR(other["eval_accuracy"].get<double>() + all["eval_accuracy"].get<double>(), 1, 1e-9);
  EXPECT_EQ(Weights("run"), weights);
}

TEST_F(TrainingRunTest, PartsOfACheckpointAreDrawnAgain) {
  Succeeds(Pretrain("base", {"--max_steps", "2"}));
  const auto from = [&](const std::string& output, const std::vector<std::string>& more) {
    std::vector<std::string> words{LSHFORMER_BINARY,
                                   "train",
                                   "--no_progress",
                                   "--model_name_or_path",
                                   folder_ / "base",
                                   "--task_name",
                                   "sst2",
                                   "--data_dir",
                                   folder_ / "glue",
                                   "--output_dir",
                                   folder_ / output,
                                   "--max_steps",
                                   "1",
                                   "--learning_rate",
                                   "1e-20",
                                   "--weight_decay",
                                   "0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_EQ(RunCommand(from("again", {"--reinitialize", "layer.1.,self.query"})).status, 0);
  const SafetensorsFile base(folder_ / "base/model.safetensors"), again(folder_ / "again/model.safetensors");
  int drawn = 0, kept = 0;
  for (const auto& [name, before] : base.tensors()) {
    if (name.find("encoder.layer") == name.npos || !name.ends_with("weight") || name.find("Norm") != name.npos)
      continue;
    const TensorView* after = again.Find(name);
    ASSERT_NE(after, nullptr) << name;
    const bool named = name.find("layer.1.") != name.npos || name.find("self.query") != name.npos;
    EXPECT_EQ(std::equal(before.bytes.begin(), before.bytes.end(), after->bytes.begin()), !named) << name;
    ++(named ? drawn : kept);
  }
  EXPECT_EQ(drawn, 6 + 1);
  EXPECT_EQ(kept, 5);
  EXPECT_THAT(Fails(from("third", {"--reinitialize", "layer.2."}), 2),
              HasSubstr("--reinitialize: no parameter has \"layer.2.\" in its name"));
  EXPECT_FALSE(fs::exists(folder_ / "third"));
  EXPECT_THAT(Fails(Train("new", {"--reinitialize", "layer.1."}), 2),
              HasSubstr("--reinitialize: needs --model_name_or_path"));
}

// Why published LSH encoders stay at chance: causal, the first token, which is classified, sees itself alone.
TEST_F(TrainingRunTest, CausalAttentionClassifiesNothing) {
  const std::vector<std::string> reformer{"--do_eval", "--attention", "reformer", "--lsh_chunk", "4"};
  Succeeds(Train("sound", reformer));
  EXPECT_GE(Results("sound/eval_results.json")["eval_accuracy"].get<double>(), 0.9);
  EXPECT_GT(Results("sound/eval_results.json")["eval_hashed_fraction"].get<double>(), 0.9);
  std::vector<std::string> causal = reformer;
  causal.push_back("--lsh_causal");
  Succeeds(Train("causal", causal));
  const Json eval = Results("causal/eval_results.json");
  EXPECT_NEAR(eval["eval_accuracy"].get<double>(), 0.5, 0.06) << "one answer to as many good as bad";
  EXPECT_EQ(eval["eval_hashed_fraction"], Results("sound/eval_results.json")["eval_hashed_fraction"]);
}

}  // namespace
}  // namespace lshformer::cli
