#include "jobs/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/attention.h"
#include "bench/operands.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;

AttentionSpec Reformer(int rounds, int chunk) { return {.kind = ReformerAttention{.rounds = rounds, .chunk = chunk}}; }

TEST(VariantNames, SayWhatDiffers) {
  AttentionSpec simhash;
  simhash.kind = SimHashAttention{};
  EXPECT_THAT(VariantNames({AttentionSpec{}, simhash, Reformer(1, 64)}), ElementsAre("dense", "simhash", "reformer"));
  EXPECT_THAT(VariantNames({Reformer(1, 64), AttentionSpec{}, Reformer(4, 64)}),
              ElementsAre("reformer rounds 1", "dense", "reformer rounds 4"));
  AttentionSpec factors = Reformer(1, 32);
  As<ReformerAttention>(factors).buckets = {4, 6};
  EXPECT_THAT(VariantNames({Reformer(1, 64), factors}),
              ElementsAre("reformer rounds 1, buckets auto, chunk 64", "reformer rounds 1, buckets [4,6], chunk 32"));
  AttentionSpec sorted = simhash;
  As<SimHashAttention>(sorted).pairs = Pairs::kSorted;
  As<SimHashAttention>(sorted).bands = 0;
  AttentionSpec growing = simhash;
  As<SimHashAttention>(growing).bands = 0;
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
  const std::vector<int32_t> offsets{0, 10};
  const AttentionShape shape{offsets, 3, 8};
  AttentionSpec spec;
  EXPECT_EQ(LeastBytesMoved(spec, shape, false), 4 * 30 * (4 * 8 + 1));
  EXPECT_EQ(LeastBytesMoved(spec, shape, true), 4 * 30 * (12 * 8 + 2));
  spec.kind = ReformerAttention{};
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

// Without flags and without the program: rows by length, direction and variant, each variant once.
TEST(RunBenchAttention, RowsInTheOrderOfTheOptions) {
  BenchAttentionOptions options;
  options.lengths = {40, 24, 40};
  options.heads = 1, options.head_dim = 8, options.runs = 1;
  options.operands = {Operands::kFloat32, Operands::kFloat32};
  options.probe_machine = false;
  const auto [machine, rows] = RunBenchAttention(options);
  EXPECT_TRUE(machine["gemm_gflops"].is_null());
  std::vector<std::string> all;
  for (const Json& row : rows)
    all.push_back(row["length"].dump() + " " + row["direction"].get<std::string>() + " " +
                  row["name"].get<std::string>());
  EXPECT_THAT(all, ElementsAre("40 forward dense", "40 forward simhash", "40 forward_backward dense",
                               "40 forward_backward simhash", "24 forward dense", "24 forward simhash",
                               "24 forward_backward dense", "24 forward_backward simhash"));
  options.forward = false;
  EXPECT_EQ(RunBenchAttention(options).rows.size(), 4u);
}

}  // namespace
}  // namespace lshformer
