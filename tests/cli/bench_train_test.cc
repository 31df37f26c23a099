#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/json.h"
#include "kernels/matmul.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CommandResult BenchTraining(const std::vector<std::string>& more) {
  std::vector<std::string> words{LSHFORMER_BINARY,
                                 "bench",
                                 "train",
                                 "--json",
                                 "--no_machine",
                                 "--runs",
                                 "2",
                                 "--batch",
                                 "3",
                                 "--config_overrides",
                                 "vocab_size=50,hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_"
                                 "size=24,max_position_embeddings=32"};
  words.insert(words.end(), more.begin(), more.end());
  return RunCommand(words);
}

TEST(BenchDist, EndsWithTheStepWhenItIsAskedTo) {
  const CommandResult stopped =
      RunCommand({"/usr/bin/timeout", "--preserve-status", "--signal=TERM", "8", LSHFORMER_BINARY, "bench", "dist",
                  "--runs", "100000", "--total_batch_size", "8", "--config_overrides",
                  "vocab_size=50,hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=24"});
  EXPECT_EQ(stopped.status, 128 + SIGTERM) << stopped.err;
  EXPECT_EQ(stopped.out, "");
}

TEST(BenchTrain, OneRowPerLengthAndAttentionInTheOrderOfTheFlags) {
  const CommandResult result =
      BenchTraining({"--lengths", "7,32", "--attention", "simhash", "--attention", "dense", "--attention", "simhash"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json results = ParseJson(result.out, "stdout");
  EXPECT_TRUE(results["machine"].contains("threads"));
  const Json& rows = results["results"];
  ASSERT_EQ(rows.size(), 6u);
  const char* names[] = {"simhash", "dense", "simhash-2"};
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    EXPECT_EQ(row["name"], names[i % 3]);
    EXPECT_EQ(row["attention"], i % 3 == 1 ? "dense" : "simhash");
    EXPECT_EQ(row["length"], i < 3 ? 7 : 32);
    EXPECT_EQ(row["tokens"], 3 * row["length"].get<int>());
    EXPECT_EQ(row["runs"], 2);
    const double seconds = row["median_ms"].get<double>() / 1e3;
    EXPECT_NEAR(row["tokens_per_second"].get<double>() * seconds, row["tokens"].get<double>(), 1e-6);
    EXPECT_NEAR(row["sequences_per_second"].get<double>() * seconds, 3, 1e-6);
    EXPECT_EQ(row["pairs_fraction"] == 1, i % 3 == 1) << row["pairs_fraction"];
    EXPECT_GT(row["work_bytes"].get<int64_t>(), 0);
  }
  const double n = 32, flops = 3 * 3 * (2 * n * (4 * 16 * 16 + 2 * 16 * 24) + 2 * n * n * (4 * 8 + 5));
  EXPECT_NEAR(rows[4]["gflops"].get<double>() * 1e6 * rows[4]["median_ms"].get<double>(), flops, 1e-6 * flops);
}

TEST(BenchTrain, Dtypes) {
  if (!SupportsProducts(Precision::kBFloat16)) GTEST_SKIP() << "this CPU has no bfloat16 instructions";
  const CommandResult result = BenchTraining({"--lengths", "7", "--dtype", "float32,bfloat16"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = ParseJson(result.out, "stdout")["results"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["dtype"], "float32");
  EXPECT_EQ(rows[1]["dtype"], "bfloat16");
  EXPECT_EQ(BenchTraining({"--dtype", "int8"}).status, 2) << "integers have no gradients";
}

TEST(BenchTrain, ALengthBeyondThePositionTableIsNamed) {
  const CommandResult result = BenchTraining({"--lengths", "33"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--lengths: 33 exceeds max_position_embeddings 32"));
}

constexpr const char* kTiny =
    "vocab_size=50,hidden_size=16,num_attention_heads=2,intermediate_size=24,max_position_embeddings=32,";

std::vector<std::string> Names(const std::vector<std::string>& overrides, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{LSHFORMER_BINARY, "bench", "train",        "--json", "--no_machine", "--runs", "1",
                                 "--lengths",      "7",     "--batch_size", "1"};
  for (const std::string& changes : overrides) words.insert(words.end(), {"--config_overrides", kTiny + changes});
  words.insert(words.end(), more.begin(), more.end());
  const CommandResult result = RunCommand(words);
  EXPECT_EQ(result.status, 0) << result.err;
  if (result.status != 0) return {};
  const Json rows = ParseJson(result.out, "stdout")["results"];
  std::vector<std::string> names;
  for (const Json& row : rows) names.push_back(row["name"].get<std::string>());
  return names;
}

TEST(BenchTrain, AModelIsTimedOnceHoweverItIsWritten) {
  EXPECT_THAT(
      Names({"num_hidden_layers=1,reversible=true", "reversible=True, num_hidden_layers=1", "num_hidden_layers=2"}),
      ElementsAre("dense, num_hidden_layers=1,reversible=true", "dense, num_hidden_layers=2"));
}

TEST(BenchTrain, CommasInsideAnOverrideSeparateNothing) {
  EXPECT_THAT(Names({R"(num_hidden_layers=1,attention={"type": "simhash", "bands": 3, "window": 2})",
                     R"(num_hidden_layers=1,attention={"type": "simhash", "bands": 4, "window": 2})"}),
              ElementsAre(R"(simhash, attention={"type": "simhash", "bands": 3, "window": 2})",
                          R"(simhash, attention={"type": "simhash", "bands": 4, "window": 2})"));
}

TEST(BenchTrain, AnAttentionThatWouldBeReplacedIsRefused) {
  const CommandResult result = BenchTraining({"--config_overrides", "attention=simhash", "--attention", "dense"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--config_overrides: \"attention\" has no effect beside --attention"));
}

TEST(BenchTrain, TakesTheFolderOfAConfig) {
  TempFolder folder;
  folder.Write("model/config.json", R"({"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2,
      "num_hidden_layers": 1, "intermediate_size": 24, "max_position_embeddings": 32})");
  for (const char* name : {"model", "model/config.json"}) {
    const CommandResult result =
        RunCommand({LSHFORMER_BINARY, "bench", "train", "--json", "--no_machine", "--runs", "1", "--lengths", "7",
                    "--batch_size", "1", "--config_name", folder / name});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(ParseJson(result.out, "stdout")["results"][0]["layers"], 1);
  }
}

TEST(BenchTrain, AModelWithoutAttentionHasNoFiguresOfIt) {
  std::vector<std::string> words{LSHFORMER_BINARY, "bench", "train", "--no_machine", "--runs", "1", "--lengths", "7"};
  words.insert(words.end(), {"--batch_size", "1", "--model_type", "bidaf", "--config_overrides",
                             "vocab_size=50,hidden_size=8,embedding_size=8,character_filters=0"});
  const CommandResult table = RunCommand(words);
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("\nbidaf "));
  words.emplace_back("--json");
  const Json row = ParseJson(RunCommand(words).out, "stdout")["results"][0];
  EXPECT_EQ(row["name"], "bidaf");
  for (const char* key : {"attention", "spec", "heads", "head_dim", "layers", "gflops", "pairs_fraction", "work_bytes"})
    EXPECT_TRUE(row.at(key).is_null()) << key;
}

}  // namespace
}  // namespace lshformer::cli
