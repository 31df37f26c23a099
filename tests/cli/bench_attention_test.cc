#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "jobs/attention_operands.h"
#include "jobs/measure.h"
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

AttentionSpec Reformer(int rounds, int chunk) {
  AttentionSpec spec;
  spec.type = AttentionType::kReformer;
  spec.rounds = rounds;
  spec.chunk = chunk;
  return spec;
}

TEST(VariantNames, SayWhatDiffers) {
  AttentionSpec simhash;
  simhash.type = AttentionType::kSimHash;
  EXPECT_THAT(VariantNames({AttentionSpec{}, simhash, Reformer(1, 64)}), ElementsAre("dense", "simhash", "reformer"));
  EXPECT_THAT(VariantNames({Reformer(1, 64), AttentionSpec{}, Reformer(4, 64)}),
              ElementsAre("reformer rounds 1", "dense", "reformer rounds 4"));
  AttentionSpec factors = Reformer(1, 32);
  factors.buckets = {4, 6};
  EXPECT_THAT(VariantNames({Reformer(1, 64), factors}),
              ElementsAre("reformer rounds 1, buckets auto, chunk 64", "reformer rounds 1, buckets [4,6], chunk 32"));
  AttentionSpec sorted = simhash;
  sorted.pairs = Pairs::kSorted;
  sorted.bands = 0;
  sorted.look_ahead = kSortedLookAhead;
  AttentionSpec growing = simhash;
  growing.bands = 0;
  EXPECT_THAT(VariantNames({simhash, growing, sorted}),
              ElementsAre("simhash bands 2, table_size 64", "simhash bands auto", "simhash pairs sorted"));
  EXPECT_THAT(VariantNames({growing, sorted}), ElementsAre("simhash bands auto", "simhash pairs sorted"));
  EXPECT_THAT(VariantNames({simhash, simhash, AttentionSpec{}, simhash}),
              ElementsAre("simhash", "simhash-2", "dense", "simhash-3"));
  AttentionSpec tuned = simhash;
  tuned.min_length = kAutoLength;
  tuned.tuned = TunedLengths{100, 100, "here"};
  EXPECT_THAT(VariantNames({simhash, tuned}), ElementsAre("simhash min_length 0", "simhash min_length auto"));
}

TEST(LeastBytesMoved, EveryOperandOnce) {
  const std::vector<int32_t> borders{0, 10};
  const AttentionShape shape{borders, 3, 8};
  AttentionSpec spec;
  EXPECT_EQ(LeastBytesMoved(spec, shape, false), 4 * 30 * (4 * 8 + 1));
  EXPECT_EQ(LeastBytesMoved(spec, shape, true), 4 * 30 * (12 * 8 + 2));
  spec.type = AttentionType::kReformer;
  EXPECT_EQ(LeastBytesMoved(spec, shape, false), 4 * 30 * (3 * 8 + 1));
  EXPECT_EQ(LeastBytesMoved(spec, shape, true), 4 * 30 * (9 * 8 + 2));
}

TEST(AddRoofline, SharesOfTheMachinesRates) {
  Json row = {{"median_ms", 2.0}, {"gflops", 30.0}};
  AddRoofline({{"gemm_gflops", 120.0}, {"memory_gbps", 10.0}}, 5e6, row);
  EXPECT_DOUBLE_EQ(row["gemm_share"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(row["memory_share"].get<double>(), 0.25);  // 5 MB in 2 ms are 2.5 GB/s
  AddRoofline({{"gemm_gflops", nullptr}, {"memory_gbps", nullptr}}, 5e6, row);
  EXPECT_TRUE(row["gemm_share"].is_null() && row["memory_share"].is_null());
  EXPECT_EQ(row["moved_bytes"], 5e6);
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
    for (const char* key : {"name", "attention", "spec", "direction", "dtype", "batch", "heads", "head_dim", "length",
                            "median_ms", "p10_ms", "p90_ms", "runs", "gflops", "pairs_fraction", "work_bytes",
                            "gemm_share", "moved_bytes", "memory_share"})
      EXPECT_TRUE(row.contains(key)) << key;
    names.insert(row["name"].get<std::string>());
    EXPECT_GT(row["work_bytes"].get<int64_t>(), 0);
  }
  EXPECT_THAT(names, ElementsAre("dense", "reformer rounds 1", "reformer rounds 3"));
  // A forward allocates less than a forward with its backward.
  for (int variant = 0; variant < 3; ++variant)
    EXPECT_LT(rows[variant]["work_bytes"].get<int64_t>(), rows[3 + variant]["work_bytes"].get<int64_t>());
}

TEST(BenchAttention, DtypesInTheOrderOfTheFlag) {
  const CommandResult refused = Bench({"--no_machine", "--isa", "avx2", "--dtype", "float32,bfloat16"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_EQ(Bench({"--no_machine", "--dtype", "int8"}).status, 2);
  if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  EXPECT_THAT(refused.err, HasSubstr("--dtype bfloat16: needs avx512 on a CPU with AVX512_BF16"));
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
