// The command `attention` with Reformer: against its reference, what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cli/attention_command.h"
#include "util/rounding.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;
using testing::OfLargest;
using testing::WithinRounding;

struct ReformerCase {
  const char* name;
  std::vector<std::string> flags;
  HashFrom hash = HashFrom::kSeed;
  int rounds = 4;
  std::vector<int> factors = {};  // of rotations or buckets in the file
  bool by_length = false;         // short sequences have fewer buckets
};

// Reformer, from file to file: shared keys, its own tensors of hashing.
class ReformerOnFiles : public AttentionCommand, public ::testing::WithParamInterface<ReformerCase> {
 protected:
  static constexpr int kHeads = 2, kHeadDim = 16;
  const std::vector<int32_t> borders_{0, 0, 1, 301, 301, 310};
  const int64_t tokens_ = borders_.back();

  // Buckets [heads, rounds, tokens] by docs/attention.md, in double.
  std::vector<int32_t> HashByHand(const std::vector<float>& query, const std::vector<float>& rotations) const {
    const int columns = std::accumulate(GetParam().factors.begin(), GetParam().factors.end(), 0) / 2;
    std::vector<int32_t> buckets;
    for (int64_t matrix = 0; matrix < int64_t{kHeads} * GetParam().rounds; ++matrix) {
      for (int64_t t = 0; t < tokens_; ++t) {
        const float* x = query.data() + (t * kHeads + matrix / GetParam().rounds) * kHeadDim;
        int bucket = 0, first = 0, stride = 1;
        for (const int factor : GetParam().factors) {
          int best = 0;
          double largest = -INFINITY;
          for (int b = 0; b < factor; ++b) {
            double dot = 0;
            for (int d = 0; d < kHeadDim; ++d)
              dot +=
                  x[d] * static_cast<double>(rotations[(matrix * kHeadDim + d) * columns + first + b % (factor / 2)]);
            if (b >= factor / 2) dot = -dot;
            if (dot > largest) largest = dot, best = b;
          }
          bucket += stride * best;
          stride *= factor;
          first += factor / 2;
        }
        buckets.push_back(bucket);
      }
    }
    return buckets;
  }
};

TEST_P(ReformerOnFiles, AgreesWithTheReference) {
  const ReformerCase& c = GetParam();
  const std::vector<int64_t> shape{tokens_, kHeads, kHeadDim};
  const std::vector<float>& query = AddNormal("query", shape, 1);
  AddNormal("value", shape, 3);
  AddNormal("grad_output", shape, 4);
  AddIntegers("cu_seqlens", {static_cast<int64_t>(borders_.size())}, borders_);
  std::vector<int32_t> buckets;
  if (c.hash == HashFrom::kPlanes) {
    const int columns = std::accumulate(c.factors.begin(), c.factors.end(), 0) / 2;
    buckets = HashByHand(query, AddNormal("rotations", {kHeads, c.rounds, kHeadDim, columns}, 5));
  } else if (c.hash == HashFrom::kBuckets) {
    PhiloxStream stream(StreamKey(7, 0, 0, 0, Purpose::kPlanes));
    for (int64_t i = 0; i < kHeads * c.rounds * tokens_; ++i)
      buckets.push_back(static_cast<int32_t>(stream.Below(c.factors[0])));
    AddIntegers("query_buckets", {kHeads, c.rounds, tokens_}, buckets);
  }
  ASSERT_NO_FATAL_FAILURE(RunBoth(c.flags));
  const SafetensorsFile fast(Fast()), reference(Output());
  ASSERT_EQ(fast.tensors().size(), 5u);  // output, lse, query_buckets, grad_query, grad_value
  ASSERT_EQ(reference.tensors().size(), 5u);
  EXPECT_EQ(Integers(fast, "query_buckets"), Integers(reference, "query_buckets"));
  EXPECT_EQ(fast.Get("query_buckets", DType::kI32).shape, (std::vector<int64_t>{kHeads, c.rounds, tokens_}));
  if (!buckets.empty() && !c.by_length) {
    EXPECT_EQ(Integers(fast, "query_buckets"), buckets);
  }
  for (const char* name : {"output", "grad_query", "grad_value"}) {
    const std::vector<float> want = Floats(reference, name);
    EXPECT_THAT(Floats(fast, name), WithinRounding(want, OfLargest(want, 1e-5))) << name;
  }
  const std::vector<float> lse = Floats(fast, "lse"), want = Floats(reference, "lse");
  for (size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], want[i], 1e-5 * std::max(1.0f, std::abs(want[i]))) << i;
  for (const char* count : {"pairs_computed", "pairs_total", "hash_flops"})
    EXPECT_EQ(fast.metadata().at(count), reference.metadata().at(count)) << count;
  EXPECT_EQ(fast.metadata().at("hash_flops") == "0", c.hash == HashFrom::kBuckets);
}

std::vector<std::string> ReformerFlags(const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{"--attention", "reformer", "--lsh_chunk", "16"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

INSTANTIATE_TEST_SUITE_P(
    Reformer, ReformerOnFiles,
    ::testing::Values(
        ReformerCase{"seed", ReformerFlags()},
        ReformerCase{"rotations", ReformerFlags({"--lsh_buckets", "8"}), HashFrom::kPlanes, 4, {8}},
        ReformerCase{
            "factors", ReformerFlags({"--lsh_buckets", "4,6", "--lsh_rounds", "2"}), HashFrom::kPlanes, 2, {4, 6}},
        ReformerCase{"auto_rotations", ReformerFlags({"--lsh_rounds", "1"}), HashFrom::kPlanes, 1, {32}, true},
        ReformerCase{
            "buckets", ReformerFlags({"--lsh_buckets", "10", "--lsh_rounds", "3"}), HashFrom::kBuckets, 3, {10}},
        ReformerCase{"paper",
                     ReformerFlags({"--lsh_buckets", "10", "--lsh_rounds", "3", "--lsh_cross_bucket", "false",
                                    "--lsh_wrap", "false", "--lsh_causal", "--lsh_count_pairs_once"}),
                     HashFrom::kBuckets,
                     3,
                     {10}},
        ReformerCase{"sqrt_d",
                     ReformerFlags({"--lsh_scale", "sqrt_d", "--lsh_look_back", "2", "--lsh_look_ahead", "1"})},
        ReformerCase{
            "window_global",
            ReformerFlags({"--lsh_buckets", "10", "--lsh_rounds", "2", "--lsh_window", "9", "--lsh_global", "cls"}),
            HashFrom::kBuckets,
            2,
            {10}},
        ReformerCase{"once",
                     ReformerFlags({"--lsh_buckets", "10", "--lsh_count_pairs_once=true"}),
                     HashFrom::kBuckets,
                     4,
                     {10}}),
    [](const auto& info) { return info.param.name; });

TEST_F(AttentionCommand, RefusesReformersThatDoNotFit) {
  AddOperands(40);
  tensors_.erase(tensors_.begin() + 1);  // no key
  const std::vector<std::string> flags{"--attention", "reformer", "--lsh_rounds",  "1",
                                       "--lsh_chunk", "8",        "--lsh_buckets", "4"};
  EXPECT_EQ(Run(flags).status, 0);
  auto wide = flags;
  wide.insert(wide.end(), {"--lsh_look_back", "5"});
  EXPECT_THAT(Run(wide).err, HasSubstr("\"look_back\" 5 reaches around all 5 chunks of a sequence of 40 tokens"));
  auto wide_reference = wide;
  wide_reference.push_back("--reference");
  EXPECT_EQ(Run(wide_reference).status, 1);
  const size_t operands = tensors_.size();
  Add("rotations", {2, 1, 4, 3}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("tensor \"rotations\" has shape [2, 1, 4, 3], expected [2, 1, 4, 2]"));
  tensors_.resize(operands);
  AddIntegers("query_buckets", {2, 1, 40}, std::vector<int32_t>(80, 4));
  EXPECT_THAT(Run(flags).err, HasSubstr("\"query_buckets\": element 0 is 4, expected 0 to 3 (4 buckets)"));
  auto any = flags;  // without a number of buckets they may be any that are not negative
  any.resize(any.size() - 2);
  EXPECT_EQ(Run(any).status, 0);
  tensors_.resize(operands);
  AddIntegers("query_buckets", {2, 1, 40}, std::vector<int32_t>(80, -1));
  EXPECT_THAT(Run(any).err, HasSubstr("\"query_buckets\": element 0 is -1, expected 0 to"));
  Add("rotations", {2, 1, 4, 2}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("both \"rotations\" and \"query_buckets\""));
}

}  // namespace
}  // namespace lshformer
