// Without gradients heads of long texts are planned and computed a few at a time: the same bits and counts as those of
// all heads at once, which is how a forward with gradients computes them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "ops/attention.h"
#include "ops/sequences.h"
#include "ops/threads.h"
#include "ops/torch.h"

namespace lshformer {
namespace {

using testing::Sequences;
using torch::Tensor;

constexpr int kHeads = 13, kHeadDim = 4;
constexpr int32_t kTokens = 25'000;  // of which 2¹⁶ rows are two heads' and no more

struct Case {
  std::string name;
  AttentionSpec spec;
  bool stored = false;
};

std::vector<Case> Cases() {
  ClusteredAttention clustered{.cluster = {64}, .open = {2}, .groups = 4};
  AttentionSpec drawn{.kind = clustered, .window = 2};
  clustered.directions = Directions::kStored;
  const AttentionSpec stored{.kind = clustered};
  std::vector<AttentionSpec> heads(kHeads, stored);
  heads[1] = heads[7] = AttentionSpec{
      .kind = ClusteredAttention{.cluster = {128}, .open = {1}, .groups = 2, .directions = Directions::kStored}};
  return {{"drawn", drawn},
          {"stored", stored, true},
          {"by_head", OfHeads(heads, "test"), true},
          {"simhash", {.kind = SimHashAttention{.bands = 5, .hashes = 1, .fill = Fill::kNone, .pairs = Pairs::kFull}}},
          {"reformer", {.kind = ReformerAttention{.rounds = 1, .chunk = 64}}}};
}

class HeadsAtATime : public ::testing::TestWithParam<Case> {
 protected:
  void TearDown() override { SetAllThreads(HardwareThreads()); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, HeadsAtATime, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(HeadsAtATime, ChangeNoBit) {
  SetAllThreads(1);
  torch::manual_seed(4);
  AttentionCounts counts, of_all;
  AttentionOptions options;
  options.spec = std::make_shared<const AttentionSpec>(GetParam().spec);
  options.heads = kHeads;
  options.first_head = 3;
  options.layer = 2;
  options.sequences = Sequences({0, 700, kTokens});
  if (GetParam().stored)
    options.directions = {torch::randn({kHeads, kHeadDim, kHeadDim}), torch::randn({kHeads, kHeadDim, kHeadDim})};
  const Tensor qkv = torch::randn({kTokens, SlicesOf(GetParam().spec) * kHeads * kHeadDim});
  const auto attend = [&](AttentionCounts& into) {
    auto mine = std::make_shared<AttentionOptions>(options);
    mine->counts = &into;
    mine->drawn = std::make_shared<DrawnProjections>();
    return SelfAttention(qkv, mine);
  };
  const Tensor want = attend(of_all);
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(attend(counts), want));
  EXPECT_EQ(counts.pairs_total, of_all.pairs_total);
  EXPECT_EQ(counts.pairs_computed, of_all.pairs_computed);
  EXPECT_EQ(counts.selection_flops, of_all.selection_flops);
  EXPECT_EQ(counts.attention_flops, of_all.attention_flops);
}

}  // namespace
}  // namespace lshformer
