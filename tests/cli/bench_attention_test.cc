#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "kernels/execution.h"
#include "util/command.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CommandResult Bench(const std::vector<std::string>& more) {
  std::vector<std::string> words{LSHFORMER_BINARY, "bench", "attention",  "--runs", "2",         "--heads", "2",
                                 "--lengths",      "100",   "--head_dim", "16",     "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return RunCommand(words);
}

TEST(BenchAttention, EveryKeyOfARow) {
  const CommandResult result =
      Bench({"--json", "--no_machine", "--attention", "dense", "--attention", R"({"type": "reformer", "rounds": 1})",
             "--attention", R"({"type": "reformer", "rounds": 3})"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = ParseJson(result.out, "stdout")["results"];
  ASSERT_EQ(rows.size(), 6u);
  std::set<std::string> names;
  for (const Json& row : rows) {
    for (const char* key :
         {"name",   "attention",      "spec",       "direction",  "dtype",       "matmul_precision", "batch",
          "heads",  "head_dim",       "length",     "median_ms",  "p10_ms",      "p90_ms",           "runs",
          "gflops", "pairs_fraction", "work_bytes", "gemm_share", "moved_bytes", "memory_share"})
      EXPECT_TRUE(row.contains(key)) << key;
    names.insert(row["name"].get<std::string>());
    EXPECT_GT(row["work_bytes"].get<int64_t>(), 0);
  }
  EXPECT_THAT(names, ElementsAre("dense", "reformer rounds 1", "reformer rounds 3"));
  // A forward allocates less than a forward with its backward.
  for (int variant = 0; variant < 3; ++variant)
    EXPECT_LT(rows[variant]["work_bytes"].get<int64_t>(), rows[3 + variant]["work_bytes"].get<int64_t>());
}

TEST(BenchAttention, NamesEveryRowOnceInFlagOrder) {
  const CommandResult result =
      RunCommand({LSHFORMER_BINARY, "bench", "attention", "--json", "--no_machine", "--lengths", "5,9", "--heads", "1",
                  "--head_dim", "8", "--runs", "2", "--attention", "simhash", "--attention", "dense", "--attention",
                  R"({"type": "simhash", "bands": 4})"},
                 "/dev/null");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = ParseJson(result.out, "bench");
  std::vector<std::string> names;
  for (const Json& row : json["results"]) {
    names.push_back(row["name"]);
    EXPECT_GT(row["median_ms"].get<double>(), 0);
    EXPECT_GT(row["work_bytes"].get<int64_t>(), 0);
  }
  ASSERT_EQ(names.size(), 2u * 2 * 3);  // lengths, directions, variants
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 3),
            (std::vector<std::string>{"simhash bands 2", "dense", "simhash bands 4"}));
  EXPECT_TRUE(json["machine"]["gemm_gflops"].is_null());
  EXPECT_EQ(json["results"][1]["pairs_fraction"], 1.0);
}

TEST(BenchAttention, DtypesInTheOrderOfTheFlag) {
  const CommandResult refused = Bench({"--no_machine", "--isa", "avx2", "--dtype", "float32,bfloat16"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_EQ(Bench({"--no_machine", "--dtype", "int8"}).status, 2);
  if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  EXPECT_THAT(refused.err, HasSubstr("--dtype bfloat16: needs amx, or avx512 on a CPU with AVX512_BF16"));
  const CommandResult result =
      Bench({"--no_machine", "--json", "--direction", "forward", "--dtype", "bfloat16,float32,bfloat16"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = ParseJson(result.out, "stdout")["results"];
  ASSERT_EQ(rows.size(), 4u);
  const char* names[] = {"dense-bfloat16", "dense", "simhash-bfloat16", "simhash"};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["name"], names[i]);
    EXPECT_EQ(rows[i]["dtype"], i % 2 == 0 ? "bfloat16" : "float32");
  }
  EXPECT_NE(rows[0]["work_bytes"], rows[1]["work_bytes"]);  // less where sequences are long, more where they are short
}

TEST(BenchAttention, TheTableHasTheRoofline) {
  const CommandResult result = Bench({"--no_machine", "--direction", "forward"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("gemm_share  memory_share"));
}

TEST(BenchAttention, AutoIsRefusedWhereNothingWasMeasured) {
  const CommandResult refused = Bench({"--no_machine", "--attention", "simhash", "--lsh_min_length", "auto"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("run \"lshformer tune"));
  const CommandResult result = Bench(
      {"--no_machine", "--json", "--lengths", "99", "--direction", "forward", "--attention",
       R"({"type": "simhash", "min_length": "auto", "tuned_lengths": {"forward": 100, "forward_backward": 50}})"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = ParseJson(result.out, "stdout")["results"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["length"], 100);
  EXPECT_LT(rows[0]["pairs_fraction"].get<double>(), 1);
  EXPECT_EQ(rows[1]["pairs_fraction"], 1);  // 99 tokens: exact
}

}  // namespace
}  // namespace lshformer::cli
