// The command `tune`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "bench/crossing.h"
#include "kernels/execution.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

class TuneTest : public ::testing::Test {
 protected:
  // A model folder; tune needs its config alone.
  std::string Model(const std::string& attention, int positions = 64) {
    text_ = R"({
  "my_key": {"kept": [1, 2.50, "x"]},
  "vocab_size": 31,
  "hidden_size": 32,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "intermediate_size": 24,
  "layer_norm_eps": 1e-12,
  "max_position_embeddings": )" +
            std::to_string(positions) + (attention.empty() ? "" : ",\n  \"attention\": " + attention) +
            ",\n  \"last\": null\n}\n";
    folder_.Write("model/config.json", text_);
    return folder_ / "model";
  }
  CommandResult Tune(const std::string& model, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{LSHFORMER_BINARY, "tune", "--model_name_or_path", model, "--runs", "5",
                                   "--threads",      "1",    "--no_progress"};
    words.insert(words.end(), more.begin(), more.end());
    CommandResult result = RunCommand(words);
    // A machine busy with other tests may be too noisy for a verdict, which is an answer too, but not the one here.
    for (int again = 0; again < 20 && result.err.find("too noisy to tell") != std::string::npos; ++again)
      result = RunCommand(words);
    return result;
  }
  Json Config() const { return ParseJson(folder_.Read("model/config.json"), "config.json"); }

  std::string text_;
  TempFolder folder_;
};

// A length that tune may find, or "never".
bool IsLength(const Json& length, int shortest, int longest) {
  return length == "never" || (length.is_number_integer() && length >= shortest && length <= longest);
}

TEST_F(TuneTest, WritesTheLengthsAndKeepsEveryOtherKey) {
  const std::string model = Model(R"({"type": "simhash", "bands": 3, "seed": 18446744073709551615})");
  const CommandResult result = Tune(model);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("config.json: \"min_length\": \"auto\""));
  Json want = ParseJson(text_, "text"), got = Config();
  const Json attention = got["attention"];
  EXPECT_EQ(attention["min_length"], "auto");
  EXPECT_EQ(attention["bands"], 3);
  EXPECT_EQ(attention["seed"], UINT64_MAX);
  EXPECT_TRUE(IsLength(attention["tuned_lengths"]["forward"], 16, 64)) << attention;
  EXPECT_TRUE(IsLength(attention["tuned_lengths"]["forward_backward"], 16, 64)) << attention;
  EXPECT_THAT(attention["tuned_lengths"]["machine"].get<std::string>(), HasSubstr(", 1 thread, float32"));
  want.erase("attention");
  got.erase("attention");
  EXPECT_EQ(got.dump(), want.dump());                                                       // in their order, too
  EXPECT_EQ(std::filesystem::directory_iterator(model)->path().filename(), "config.json");  // nothing beside it
}

TEST_F(TuneTest, WhatItWroteIsInForceAndCanBeMeasuredAgain) {
  const std::string model = Model("\"simhash\"");
  const CommandResult first = Tune(model, {"--direction", "forward"});
  ASSERT_EQ(first.status, 0) << first.err;
  const Json tuned = Config()["attention"]["tuned_lengths"];
  EXPECT_FALSE(tuned.contains("forward_backward"));
  const CommandResult info = RunCommand({LSHFORMER_BINARY, "info", model, "--json"});
  ASSERT_EQ(info.status, 0) << info.err;
  EXPECT_EQ(ParseJson(info.out, "info")["hashed_from"][0], tuned["forward"]);
  const CommandResult again = Tune(model, {"--json", "--lsh_bands", "5"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(Config()["attention"]["bands"], 5);
  EXPECT_TRUE(Config()["attention"]["tuned_lengths"].contains("forward_backward"));
}

TEST_F(TuneTest, JsonHasEveryPoint) {
  const CommandResult result = Tune(Model("\"reformer\"", 200), {"--json", "--dry_run", "--lsh_chunk", "32"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json out = ParseJson(result.out, "stdout");
  EXPECT_TRUE(out["written"].is_null());
  EXPECT_EQ(folder_.Read("model/config.json"), text_);
  ASSERT_EQ(out["crossings"].size(), 2u);
  for (const Json& crossing : out["crossings"]) {
    EXPECT_TRUE(IsLength(crossing["length"], 33, 200));
    ASSERT_FALSE(crossing["points"].empty());
    // The verdict is the one of these timings.
    const auto measured = [&](int length) {
      for (const Json& point : crossing["points"])
        if (point["length"] == length)
          return Comparison{point["exact_ms"],  point["hashed_ms"],  point["ratio"],
                            point["ratio_low"], point["ratio_high"], point["runs"]};
      ADD_FAILURE() << length << " tokens were not measured: " << crossing;
      return Comparison{};
    };
    const int length = FindCrossing(33, 200, measured).length;
    EXPECT_EQ(crossing["length"], length == kNeverSparse ? Json("never") : Json(length));
    const Json& written = out["attention"]["tuned_lengths"][crossing["direction"].get<std::string>()];
    EXPECT_EQ(written, crossing["length"]);
    EXPECT_EQ(crossing["points"][0]["length"], 33);  // one chunk is exact
    for (const Json& point : crossing["points"]) {
      EXPECT_GT(point["exact_ms"].get<double>(), 0);
      EXPECT_THAT(point["ratio"].get<double>(),
                  AllOf(Ge(point["ratio_low"].get<double>()), Le(point["ratio_high"].get<double>())));
      EXPECT_EQ(point["pays"], point["ratio_high"].get<double>() < 1);
    }
  }
}

TEST_F(TuneTest, LengthsAreThoseOfTheNumbersThatAreMultiplied) {
  const std::string model = Model("\"simhash\"");
  if (!Supports(Operands::kBFloat16)) {
    EXPECT_THAT(Tune(model, {"--dtype", "bfloat16"}).err, HasSubstr("--dtype bfloat16: needs amx, or avx512"));
    EXPECT_EQ(folder_.Read("model/config.json"), text_);
    return;
  }
  const CommandResult result = Tune(model, {"--dtype", "bfloat16", "--direction", "forward", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(ParseJson(result.out, "stdout")["dtype"], "bfloat16");
  EXPECT_THAT(Config()["attention"]["tuned_lengths"]["machine"].get<std::string>(), HasSubstr(", 1 thread, bfloat16"));
  EXPECT_THAT(Tune(model, {"--dtype", "bfloat16", "--isa", "avx2"}).err,
              HasSubstr("the instruction set in force is avx2"));
}

TEST_F(TuneTest, LayersThatDifferGetTheirOwnLengths) {
  const std::string model = Model(R"(["dense", {"type": "simhash", "min_length": "auto"}])");
  const CommandResult result = Tune(model, {"--direction", "forward"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json attention = Config()["attention"];
  EXPECT_EQ(attention[0], Json({{"type", "dense"}, {"seed", 0}}));
  EXPECT_TRUE(IsLength(attention[1]["tuned_lengths"]["forward"], 16, 64));
}

TEST_F(TuneTest, DenseAttentionHasNothingToTune) {
  const std::string model = Model("");
  const CommandResult result = Tune(model);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("config.json: its attention is dense"));
  const CommandResult other = Tune(model, {"--attention", "simhash", "--direction", "forward"});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_EQ(Config()["attention"]["type"], "simhash");
}

TEST_F(TuneTest, SaysWhatIsWrong) {
  const std::string model = Model("\"reformer\"", 64);
  EXPECT_THAT(Tune(model).err, HasSubstr("reformer hashes from 65 tokens on, but only lengths up to 64"));
  EXPECT_THAT(Tune(model, {"--max_length", "65"}).err,
              HasSubstr("--max_length: 65 exceeds max_position_embeddings 64"));
  EXPECT_THAT(Tune(model, {"--lsh_min_length", "8"}).err, HasSubstr("--lsh_min_length: is what tune finds"));
  EXPECT_THAT(RunCommand({LSHFORMER_BINARY, "tune", "--help_attention"}).out,
              AllOf(HasSubstr("--lsh_bands"), ::testing::Not(HasSubstr("--lsh_min_length"))));
  EXPECT_THAT(Tune(model, {"--dtype", "int8"}).err, HasSubstr("--dtype: expected float32 or bfloat16, got \"int8\""));
  EXPECT_THAT(Tune(model, {"--runs", "4"}).err, HasSubstr("--runs: expected 5 to 10000, got 4"));
  EXPECT_THAT(Tune(folder_ / "nothing").err, HasSubstr("no such folder"));
  EXPECT_EQ(folder_.Read("model/config.json"), text_);
}

TEST_F(TuneTest, AFolderThatCannotBeWrittenFailsBeforeAnythingIsTimed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const std::string model = Model("\"simhash\"");
  chmod((model + "/config.json").c_str(), 0444);
  const CommandResult result = Tune(model);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("config.json: cannot write"));
  EXPECT_EQ(Tune(model, {"--dry_run", "--direction", "forward"}).status, 0);
}

// Whether the program has begun to catch SIGINT; also true once it has ended.
bool CatchesInterrupts(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (word != "SigCgt:") continue;
    uint64_t caught = 0;
    status >> std::hex >> caught;
    return (caught >> (SIGINT - 1) & 1) != 0;
  }
  return true;
}

TEST_F(TuneTest, ASignalChangesNothing) {
  const std::string model = Model("\"simhash\"", 8192);
  const pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    execl(LSHFORMER_BINARY, LSHFORMER_BINARY, "tune", "--model_name_or_path", model.c_str(), "--runs", "10000",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  while (!CatchesInterrupts(child)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(folder_.Read("model/config.json"), text_);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(model), std::filesystem::directory_iterator()), 1);
}

}  // namespace
}  // namespace lshformer::cli
