// The command `attention` with clusters: against its reference, what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/attention_command.h"
#include "util/rounding.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;
using testing::OfLargest;
using testing::WithinRounding;

struct ClusteredCase {
  const char* name;
  std::vector<std::string> flags;
  enum { kSeed, kDirections, kKeyDirections, kLabels } hash = kSeed;
};

class ClusteredOnFiles : public AttentionCommand, public ::testing::WithParamInterface<ClusteredCase> {};

TEST_P(ClusteredOnFiles, AgreesWithTheReference) {
  constexpr int kHeads = 2, kHeadDim = 16, kCluster = 8, kGroups = 4;
  const std::vector<int32_t> borders{0, 0, 1, 301, 301, 310};
  const int64_t tokens = borders.back();
  for (const auto& [name, seed] : {std::pair("query", 1), {"key", 2}, {"value", 3}, {"grad_output", 4}})
    AddNormal(name, {tokens, kHeads, kHeadDim}, seed);
  AddIntegers("cu_seqlens", {static_cast<int64_t>(borders.size())}, borders);
  const auto hash = GetParam().hash;
  if (hash == ClusteredCase::kDirections || hash == ClusteredCase::kKeyDirections)
    AddNormal("key_directions", {kHeads, kHeadDim, 7}, 5);  // 38 clusters take six
  if (hash == ClusteredCase::kDirections) AddNormal("query_directions", {kHeads, kHeadDim, 2}, 6);
  if (hash == ClusteredCase::kLabels) {  // of any sizes
    PhiloxStream stream(StreamKey(7, 0, 0, 0, Purpose::kDirections));
    std::vector<int32_t> clusters, groups;
    for (int64_t i = 0; i < kHeads * tokens; ++i) {
      const int64_t length = i % tokens < 1 ? 1 : i % tokens < 301 ? 300 : 9;
      clusters.push_back(static_cast<int32_t>(stream.Below((length + kCluster - 1) / kCluster)));
      groups.push_back(static_cast<int32_t>(stream.Below(kGroups)));
    }
    AddIntegers("key_clusters", {kHeads, tokens}, clusters);
    AddIntegers("query_groups", {kHeads, tokens}, groups);
  }
  std::vector<std::string> flags{"--attention", "clustered", "--lsh_cluster", std::to_string(kCluster)};
  flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
  ASSERT_NO_FATAL_FAILURE(RunBoth(flags));
  const SafetensorsFile fast(Fast()), reference(Output());
  for (const char* name : {"key_clusters", "query_groups"}) {
    EXPECT_EQ(fast.Get(name, DType::kI32).shape, (std::vector<int64_t>{kHeads, tokens}));
    EXPECT_EQ(Integers(fast, name), Integers(reference, name)) << name;
  }
  for (const char* name : {"key_directions", "query_directions"}) {
    ASSERT_EQ(fast.Find(name) != nullptr, hash != ClusteredCase::kLabels) << name;
    if (hash != ClusteredCase::kLabels) {
      EXPECT_EQ(Floats(fast, name), Floats(reference, name)) << name;
    }
  }
  for (const char* name : {"output", "grad_query", "grad_key", "grad_value"}) {
    const std::vector<float> want = Floats(reference, name);
    EXPECT_THAT(Floats(fast, name), WithinRounding(want, OfLargest(want, 1e-4))) << name;
  }
  const std::vector<float> lse = Floats(fast, "lse"), want = Floats(reference, "lse");
  for (size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], want[i], 1e-4 * std::max(1.0f, std::abs(want[i]))) << i;
  for (const char* count : {"pairs_computed", "pairs_total", "hash_flops"})
    EXPECT_EQ(fast.metadata().at(count), reference.metadata().at(count)) << count;
}

INSTANTIATE_TEST_SUITE_P(
    Clustered, ClusteredOnFiles,
    ::testing::Values(ClusteredCase{"seed", {}}, ClusteredCase{"directions", {}, ClusteredCase::kDirections},
                      ClusteredCase{"key_directions", {"--lsh_open", "2"}, ClusteredCase::kKeyDirections},
                      ClusteredCase{"labels", {}, ClusteredCase::kLabels},
                      ClusteredCase{"levels", {"--lsh_cluster", "32,8", "--lsh_open", "2,3"}},
                      ClusteredCase{"alone", {"--lsh_window", "0", "--lsh_global", "none", "--lsh_groups", "3"}}),
    [](const auto& info) { return info.param.name; });

TEST_F(AttentionCommand, RefusesClustersThatDoNotFit) {
  AddOperands(40);
  const std::vector<std::string> flags{"--attention", "clustered", "--lsh_cluster", "4", "--lsh_open", "1"};
  EXPECT_EQ(Run(flags).status, 0);
  const size_t operands = tensors_.size();
  Add("key_directions", {2, 4, 3}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("\"key_directions\" has shape [2, 4, 3], expected at least 4 directions"));
  tensors_.resize(operands);
  Add("query_directions", {2, 4, 2}, INFINITY);
  EXPECT_THAT(Run(flags).err, HasSubstr("\"query_directions\": element 0 is not finite"));
  tensors_.resize(operands);
  AddIntegers("key_clusters", {2, 40}, std::vector<int32_t>(80, 10));
  EXPECT_THAT(Run(flags).err, HasSubstr("tensor \"query_groups\" is missing"));
  AddIntegers("query_groups", {2, 40}, std::vector<int32_t>(80, 0));
  EXPECT_THAT(Run(flags).err, HasSubstr("\"key_clusters\": element 0 is 10, expected 0 to 9"));
  Add("key_directions", {2, 4, 4}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("both \"key_directions\" and \"key_clusters\""));
  tensors_.resize(operands);
  EXPECT_THAT(Run({"--attention", "clustered", "--lsh_rounds", "2"}).err, HasSubstr("no meaning for clustered"));
  EXPECT_THAT(Run({"--attention", "clustered", "--lsh_groups", "0"}).err, HasSubstr("expected 1 to 64"));
}

}  // namespace
}  // namespace lshformer
