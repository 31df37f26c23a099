// The command `convert` and tasks: what it measures on them, what it trains towards the exact model.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "base/json.h"
#include "cli/conversion.h"
#include "io/safetensors.h"
#include "synth/synth.h"
#include "util/interrupt.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::testing::HasSubstr;

TEST_F(ConvertTest, MeasuresATask) {
  const Json report = Convert("out", {"--lsh_open", "1", "--task", "fill-mask", "--validation_file",
                                      *shared_ / "corpus.txt", "--max_eval_samples", "20"});
  EXPECT_EQ(report["metric_name"], "eval_accuracy");
  const CommandResult exact =
      Call({"evaluate", "--model_name_or_path", Model(), "--task", "fill-mask", "--validation_file",
            *shared_ / "corpus.txt", "--max_eval_samples", "20", "--quiet"});
  EXPECT_EQ(report["metric_exact"], ParseJson(exact.out, "exact")["eval_accuracy"]) << exact.err;
}

TEST_F(ConvertTest, MeasuresQuestionsWithoutAnAnswer) {
  Made({"synth", "--task", "qa", "--examples", "6", "--output", folder_ / "questions.json"});
  Json data = ReadJsonFile(folder_ / "questions.json");
  Json& question = data["data"][0]["paragraphs"][0]["qas"][0];
  question["is_impossible"] = true;
  question["answers"] = Json::array();
  folder_.Write("with_none.json", data.dump());
  Made({"train", "--task", "question-answering", "--model_name_or_path", Model(), "--train_file",
        folder_ / "questions.json", "--output_dir", folder_ / "reader", "--max_steps", "1", "--max_seq_length", "128"});
  const auto command = [&](const Words& more) {
    Words words{"convert",           "--model_name_or_path",
                folder_ / "reader",  "--dry_run",
                "--calibrate",       Texts(),
                "--quiet",           "--json",
                "--max_seq_length",  "128",
                "--lsh_open",        "1",
                "--validation_file", folder_ / "with_none.json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(Wrong(command({}), 1), HasSubstr("--version_2_with_negative allows such questions"));
  const CommandResult result = Call(command({"--version_2_with_negative"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json report = ParseJson(result.out, "report");
  EXPECT_EQ(report["metric_name"], "eval_f1") << report.dump();
  EXPECT_TRUE(report["task_results"].contains("eval_NoAns_f1"));
  EXPECT_THAT(Wrong(Command("out", {"--version_2_with_negative"}), 2),
              HasSubstr("--version_2_with_negative: is for --task question-answering"));
}

TEST_F(ConvertTest, TrainingTowardsTheExactModelBringsItCloser) {
  const Json report =
      Convert("out", {"--budget_pairs", "0.2", "--recover_steps", "80", "--train_file", *shared_ / "texts.jsonl"});
  EXPECT_GT(report["cosine_mean"].get<double>(), report["cosine_mean_before_recovery"].get<double>());
  const SafetensorsFile before(Model() + "/model.safetensors"), after(folder_ / "out/model.safetensors");
  const char* name = "bert.encoder.layer.0.attention.self.query.weight";
  const auto bytes = [&](const SafetensorsFile& file) {
    const auto view = file.Find(name)->bytes;
    return std::vector<std::byte>(view.begin(), view.end());
  };
  EXPECT_NE(bytes(before), bytes(after));
  // The head of masked words is no part of what was trained, and still there.
  EXPECT_NE(after.Find("cls.predictions.bias"), nullptr);
}

// The names in a folder that begin so.
size_t Entries(const std::string& folder, const std::string& begin) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().filename().string().starts_with(begin) ? 1 : 0;
  return count;
}

// Stopped or killed in the middle and repeated, it writes what it would have written, with the attention that was
// chosen and timed before.
TEST_F(ConvertTest, TheSameCommandGoesOnWithARecovery) {
  namespace fs = std::filesystem;
  const Words recovery{"--budget_pairs", "0.3", "--recover_steps", "150", "--train_file", Texts()};
  const Json whole = Convert("whole", recovery);
  const std::string unfinished = folder_ / ".lshformer-out.unfinished";
  for (const int signal : {SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    Words words = Command("out", recovery);
    words.insert(words.begin(), LSHFORMER_BINARY);
    const CommandResult stopped = testing::InterruptCommand(
        words, signal, [&] { return fs::exists(unfinished + "/checkpoint-50/trainer_state.json"); });
    ASSERT_EQ(stopped.status, 128 + signal) << stopped.err;
    if (signal == SIGINT) {
      EXPECT_THAT(stopped.err, ::testing::MatchesRegex("lshformer: recovering: stopped by SIGINT after step [0-9]+ of "
                                                       "150; the same command goes on from there\n"));
    }
    EXPECT_FALSE(fs::exists(folder_ / "out"));
    EXPECT_EQ(Entries(unfinished, "checkpoint-"), 1u);
    const Json kept = ReadJsonFile(unfinished + "/choice.json");
    const Json report = Convert("out", recovery);
    for (const char* file : {"model.safetensors", "config.json"})
      EXPECT_EQ(folder_.Read(std::string("out/") + file), folder_.Read(std::string("whole/") + file)) << file;
    for (const char* figure :
         {"cosine_mean", "cosine_mean_before_recovery", "cosine_worst", "pairs_fraction", "layers"})
      EXPECT_EQ(report[figure], whole[figure]) << figure;
    ASSERT_EQ(report["frontier"].size(), kept["rows"].size());
    for (size_t row = 0; row < report["frontier"].size(); ++row)
      EXPECT_EQ(report["frontier"][row]["time_fraction"], kept["rows"][row]["time_fraction"]);
    EXPECT_EQ(Entries(folder_.path(), ".lshformer-"), 0u);
    EXPECT_EQ(Entries(folder_ / "out", ".lshformer-"), 0u);
    EXPECT_EQ(Entries(folder_ / "out", "checkpoint-"), 0u);
    fs::remove_all(folder_ / "out");
  }
}

// What is left is this command's alone: another one begins anew, in an empty folder too, and takes it away.
TEST_F(ConvertTest, AnotherCommandDoesNotGoOnWithARecovery) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_ / "out");
  const std::string unfinished = folder_ / "out/.lshformer-convert.unfinished";
  const Words recovery{"--lsh_open", "1", "--train_file", Texts(), "--recover_steps"};
  const auto with = [&](const Words& more) {
    Words all = recovery;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Words words = Command("out", with({"100000"}));
  words.insert(words.begin(), LSHFORMER_BINARY);
  const auto stop = [&] {
    const CommandResult stopped = testing::InterruptCommand(
        words, SIGTERM, [&] { return fs::exists(unfinished + "/checkpoint-50/trainer_state.json"); });
    ASSERT_EQ(stopped.status, 128 + SIGTERM) << stopped.err;
    ASSERT_TRUE(fs::exists(unfinished));
  };
  stop();
  Convert("whole", with({"3"}));
  Convert("out", with({"3"}));
  EXPECT_EQ(folder_.Read("out/model.safetensors"), folder_.Read("whole/model.safetensors"));
  EXPECT_EQ(Entries(folder_ / "out", ".lshformer-"), 0u);
  fs::remove_all(folder_ / "out"), fs::create_directory(folder_ / "out");
  stop();
  Convert("out", {"--lsh_open", "1"});  // without a recovery
  EXPECT_EQ(Entries(folder_ / "out", ".lshformer-"), 0u);
  // Nothing is kept where nothing is written.
  fs::remove_all(folder_ / "out"), fs::create_directory(folder_ / "out");
  EXPECT_EQ(Call(Command("out", with({"60", "--min_quality", "1"}))).status, 1);
  EXPECT_EQ(Entries(folder_ / "out", ""), 0u);
  Convert("out", with({"60", "--dry_run"}));
  EXPECT_EQ(Entries(folder_ / "out", ""), 0u);
}

// Questions with their contexts, under either name; beside the two in one text, which lacks the [SEP] between them.
TEST_F(ConvertTest, Pairs) {
  std::string questions, pairs, joined;
  for (int i = 0; i < 8; ++i) {
    const SyntheticQuestion made = MakeSyntheticQuestion(5, static_cast<uint64_t>(i), 10);
    questions += Json{{"question", made.question}, {"context", made.context}}.dump() + "\n";
    pairs += Json{{"text", made.question}, {"text_pair", made.context}}.dump() + "\n";
    joined += Json{{"text", made.question + " " + made.context}}.dump() + "\n";
  }
  const auto report = [&](const std::string& model, const std::string& text) {
    const CommandResult result =
        Call({"convert", "--model_name_or_path", model, "--dry_run", "--calibrate", folder_.Write("texts.jsonl", text),
              "--recover_steps", "1", "--train_file", folder_ / "texts.jsonl", "--quiet", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return ParseJson(result.out, "report");
  };
  const Json asked = report(Model(), questions), beside = report(Model(), pairs), together = report(Model(), joined);
  for (const char* key : {"cosine_mean_before_recovery", "cosine_mean", "pairs_fraction"})
    EXPECT_EQ(asked[key], beside[key]) << key;
  EXPECT_EQ(together["texts"]["cut"], 0);
  EXPECT_EQ(asked["texts"]["tokens"], together["texts"]["tokens"].get<int64_t>() + 8);
  EXPECT_NE(asked["cosine_mean"], together["cosine_mean"]);
}

// The head of a model that answers questions learns from questions with their contexts, and stays what it is on texts
// alone.
TEST_F(ConvertTest, RecoversAnswers) {
  Made({"synth", "--task", "qa", "--examples", "8", "--length", "10", "--output", folder_ / "questions.json"});
  Made({"train", "--task", "question-answering", "--model_name_or_path", Model(), "--train_file",
        folder_ / "questions.json", "--output_dir", folder_ / "reader", "--max_steps", "1", "--max_seq_length", "160"});
  std::string questions, texts;
  for (int i = 0; i < 8; ++i) {
    const SyntheticQuestion made = MakeSyntheticQuestion(5, static_cast<uint64_t>(i), 10);
    questions += Json{{"question", made.question}, {"context", made.context}}.dump() + "\n";
    texts += Json{{"text", made.context}}.dump() + "\n";
  }
  const auto head_moves = [&](const std::string& output, const std::string& text) {
    Made({"convert", "--model_name_or_path", folder_ / "reader", "--output_dir", folder_ / output, "--calibrate",
          Texts(), "--recover_steps", "3", "--train_file", folder_.Write("texts.jsonl", text)});
    const SafetensorsFile before(folder_ / "reader/model.safetensors"),
        after(folder_ / (output + "/model.safetensors"));
    const TensorView own = *before.Find("qa_outputs.weight"), now = *after.Find("qa_outputs.weight");
    return !std::equal(own.bytes.begin(), own.bytes.end(), now.bytes.begin());
  };
  EXPECT_TRUE(head_moves("answers", questions));
  EXPECT_FALSE(head_moves("states", texts));
}

// A run under another attention than the model's says in one line what that does, and computes what it would anyway.
TEST_F(ConvertTest, AnotherAttentionSaysWhatItDoes) {
  const auto predict = [&](const Words& more, const std::string& level) {
    Words words{"predict",     "--task", "feature-extraction",
                "--pooling",   "mean",   "--model_name_or_path",
                Model(),       "--text", SyntheticDocument(2, 0).substr(0, 200),
                "--log_level", level,    "--no_progress"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Call(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  };
  const Words simhash{"--attention", "simhash", "--lsh_bands", "3"};
  const CommandResult own = predict({}, "warn"), other = predict(simhash, "warn");
  EXPECT_EQ(own.err, "");
  EXPECT_EQ(other.out, predict(simhash, "error").out);
  EXPECT_EQ(std::count(other.err.begin(), other.err.end(), '\n'), 1) << other.err;
  const Json a = ParseJson(own.out, "answer")["embedding"], b = ParseJson(other.out, "answer")["embedding"];
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += a[i].get<double>() * b[i].get<double>();
    aa += a[i].get<double>() * a[i].get<double>();
    bb += b[i].get<double>() * b[i].get<double>();
  }
  const double cosine = std::floor(1000 * dot / std::sqrt(aa * bb)) / 1000;
  ASSERT_LT(cosine, 0.999);
  EXPECT_THAT(other.err,
              ::testing::AllOf(HasSubstr("under simhash its answers change; convert measures how much"),
                               HasSubstr(fmt::format("mean state has a cosine of {:.3f} to before", cosine))));
  // Training too, whose bits do not hang on the look.
  const auto train = [&](const std::string& output, const std::string& level) {
    Words words{"pretrain", "--model_name_or_path", Model(), "--train_file", *shared_ / "corpus.txt", "--max_steps",
                "2",        "--max_seq_length",     "64",    "--output_dir", folder_ / output,        "--log_level",
                level,      "--no_progress"};
    words.insert(words.end(), simhash.begin(), simhash.end());
    const CommandResult result = Call(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(train("told", "warn"), HasSubstr(" texts' mean states have a cosine of 0."));
  EXPECT_EQ(train("untold", "error"), "");
  EXPECT_EQ(folder_.Read("told/model.safetensors"), folder_.Read("untold/model.safetensors"));
}

TEST_F(ConvertTest, EvaluateComparesWithExactAttention) {
  const auto evaluate = [&](const Words& more, int status) {
    Words words{"evaluate",
                "--model_name_or_path",
                Model(),
                "--task",
                "fill-mask",
                "--validation_file",
                *shared_ / "corpus.txt",
                "--max_eval_samples",
                "12",
                "--log_level",
                "error",
                "--no_progress"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Call(words);
    EXPECT_EQ(result.status, status) << result.err;
    return status == 0 ? ParseJson(result.out, "results") : Json(result.err);
  };
  const Json exact = evaluate({}, 0);
  const Json both =
      evaluate({"--attention", "clustered", "--lsh_open", "1", "--lsh_cluster", "8", "--compare_exact"}, 0);
  EXPECT_EQ(both["eval_accuracy_exact"], exact["eval_accuracy"]);
  EXPECT_EQ(both["eval_loss_exact"], exact["eval_loss"]);
  EXPECT_NE(both["eval_loss"], exact["eval_loss"]);
  EXPECT_LT(both["eval_pairs_fraction"].get<double>(), 0.6);
  const double mean = both["eval_cosine_to_exact_mean"].get<double>(),
               worst = both["eval_cosine_to_exact_worst"].get<double>();
  EXPECT_LT(mean, 1 - 1e-6);
  EXPECT_GT(worst, 0.5);
  EXPECT_LE(worst, mean);
  EXPECT_FALSE(both.contains("eval_runtime_exact"));
  const Json same = evaluate({"--attention", "clustered", "--lsh_min_length", "5000", "--compare_exact"}, 0);
  EXPECT_NEAR(same["eval_cosine_to_exact_mean"].get<double>(), 1, 1e-12);
  EXPECT_EQ(same["eval_loss"], same["eval_loss_exact"]);
  EXPECT_THAT(evaluate({"--compare_exact"}, 2).get<std::string>(), HasSubstr("--compare_exact"));
  EXPECT_THAT(
      Wrong({"evaluate", "--task_name", "sst2", "--predictions", "a", "--references", "b", "--compare_exact"}, 2),
      HasSubstr("--compare_exact"));
}

}  // namespace
}  // namespace lshformer::cli
