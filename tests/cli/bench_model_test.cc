#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "models/model.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::HasSubstr;

class BenchModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary += std::string(1, letter) + "\n";
    folder_.Write("model/vocab.txt", vocabulary);
    ModelConfig config;
    config.vocab_size = 31, config.hidden_size = 16, config.num_hidden_layers = 1, config.num_attention_heads = 2;
    config.intermediate_size = 24, config.max_position_embeddings = 32;
    SaveModel(*CreateModel(config, Task::kMaskedLm, 1), folder_ / "model");
  }
  CommandResult Bench(const std::vector<std::string>& more) const {
    std::vector<std::string> words{LSHFORMER_BINARY, "bench",        "model",  folder_ / "model",
                                   "--json",         "--no_machine", "--runs", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return RunCommand(words);
  }
  TempFolder folder_;
};

TEST_F(BenchModelTest, OneRowPerLengthAndAttention) {
  const CommandResult result =
      Bench({"--lengths", "7,32", "--batch", "3", "--attention", "dense", "--attention", "simhash"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = ParseJson(result.out, "stdout")["results"];
  ASSERT_EQ(rows.size(), 4u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["name"], i % 2 == 0 ? "dense" : "simhash");
    EXPECT_EQ(rows[i]["direction"], "forward");
    EXPECT_EQ(rows[i]["length"], i < 2 ? 7 : 32);
    EXPECT_EQ(rows[i]["tokens"], 3 * rows[i]["length"].get<int>());
    EXPECT_GT(rows[i]["median_ms"].get<double>(), 0);
    EXPECT_GT(rows[i]["work_bytes"].get<int64_t>(), 0);
    EXPECT_GT(rows[i]["pairs_fraction"].get<double>(), 0);
    EXPECT_EQ(rows[i]["pairs_fraction"] == 1, i % 2 == 0) << rows[i]["pairs_fraction"];
  }
  // Of exact attention: two operations a weight and token, two products of 8 and 5 of the softmax a pair and head.
  const double n = 32, flops = 3 * (2 * n * (4 * 16 * 16 + 2 * 16 * 24) + 2 * n * n * (4 * 8 + 5));
  EXPECT_NEAR(rows[2]["gflops"].get<double>() * 1e6 * rows[2]["median_ms"].get<double>(), flops, 1e-6 * flops);
}

TEST_F(BenchModelTest, OneRowPerDtype) {
  for (const Precision precision : {Precision::kBFloat16, Precision::kInt8})
    if (!SupportsProducts(precision)) GTEST_SKIP() << "this CPU has no instructions for " << Name(precision);
  const CommandResult result = Bench({"--lengths", "7", "--attention", "dense", "--attention", "simhash", "--dtype",
                                      "float32", "--dtype", "bfloat16,int8"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = ParseJson(result.out, "stdout")["results"];
  ASSERT_EQ(rows.size(), 6u);
  const char* names[] = {"dense", "dense-bfloat16", "dense-int8", "simhash", "simhash-bfloat16", "simhash-int8"};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["name"], names[i]);
    EXPECT_EQ(rows[i]["dtype"], i % 3 == 0 ? "float32" : i % 3 == 1 ? "bfloat16" : "int8");
    EXPECT_EQ(rows[i]["matmul_precision"], i % 3 == 0 ? Json("highest") : Json());
  }
  EXPECT_THAT(Bench({"--dtype", "int4"}).err, HasSubstr("--dtype: expected float32, bfloat16 or int8"));
}

// What is multiplied in, which without AMX tiles is float32 itself.
TEST_F(BenchModelTest, MatmulPrecision) {
  const CommandResult result = Bench({"--lengths", "7", "--float32_matmul_precision", "high"});
  ASSERT_EQ(result.status, 0) << result.err;
  const bool tiles = SupportedIsas().front() == "amx";
  EXPECT_EQ(ParseJson(result.out, "stdout")["results"].at(0)["matmul_precision"], tiles ? "high" : "highest");
  EXPECT_EQ(result.err.empty(), tiles) << result.err;
  const CommandResult refused = Bench({"--dtype", "int8", "--float32_matmul_precision", "high"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--float32_matmul_precision: is for --dtype float32"));
}

TEST_F(BenchModelTest, TextsCountTheirTokens) {
  const std::string texts =
      folder_.Write("texts.jsonl", "{\"text\": \"a b c\"}\n{\"text\": \"d\", \"text_pair\": \"e f\"}\n");
  const CommandResult result = Bench({"--input", texts});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json row = ParseJson(result.out, "stdout")["results"].at(0);
  EXPECT_EQ(row["tokens"], 5 + 6);
  EXPECT_EQ(row["batch"], 2);
  EXPECT_EQ(row["pairs_fraction"], 1);
  EXPECT_GT(row["work_bytes"].get<int64_t>(), 0);
  const double flops = 2 * 11 * (4 * 16 * 16 + 2 * 16 * 24) + 2 * (5 * 5 + 6 * 6) * (4 * 8 + 5);
  EXPECT_NEAR(row["gflops"].get<double>() * 1e6 * row["median_ms"].get<double>(), flops, 1e-6 * flops);
  EXPECT_NEAR(row["tokens_per_second"].get<double>() * row["median_ms"].get<double>() / 1e3, 11, 1e-6);
}

TEST_F(BenchModelTest, SaysWhatIsWrong) {
  EXPECT_THAT(Bench({"--lengths", "33"}).err, HasSubstr("--lengths: 33 exceeds max_position_embeddings 32"));
  EXPECT_THAT(Bench({"--batch_tokens", "33"}).err, HasSubstr("--batch_tokens: is for the texts of --input"));
  const std::string texts = folder_.Write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": \" \"}\n");
  EXPECT_THAT(Bench({"--input", texts}).err, HasSubstr("bad.jsonl:2: \"text\" has no tokens"));
  EXPECT_THAT(Bench({"--input", texts, "--lengths", "3"}).err, HasSubstr("--lengths: the texts of --input"));
  EXPECT_THAT(Bench({"--input", folder_.Write("none.jsonl", "")}).err, HasSubstr("none.jsonl: holds no text"));
}

}  // namespace
}  // namespace lshformer::cli
