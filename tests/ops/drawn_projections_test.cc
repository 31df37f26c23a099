// Planes and rotations that are kept from call to call are those that would be drawn.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention_specs.h"
#include "ops/attention.h"
#include "ops/sequences.h"
#include "ops/torch.h"

namespace lshformer {
namespace {

using testing::NameOf;
using testing::Sequences;
using torch::Tensor;

constexpr int kHeads = 2, kHeadDim = 8;

std::vector<int32_t> CuSeqlens(const std::vector<int>& lengths) {
  std::vector<int32_t> cu_seqlens{0};
  for (const int length : lengths) cu_seqlens.push_back(cu_seqlens.back() + length);
  return cu_seqlens;
}

std::vector<float> Drawn(const Projections& numbers) {
  const auto* planes = std::get_if<SimHashPlanes>(&numbers);
  return planes ? planes->planes : std::get<ReformerRotations>(numbers).rotations;
}

class DrawnProjectionsTest : public ::testing::TestWithParam<AttentionSpec> {
 protected:
  std::shared_ptr<const Projections> Get(const std::vector<int>& lengths, uint64_t step) {
    const std::vector<int32_t> cu_seqlens = CuSeqlens(lengths);
    return drawn_->Get(GetParam(), {cu_seqlens, kHeads, kHeadDim}, /*layer=*/3, step);
  }
  // Output and gradient.
  std::pair<Tensor, Tensor> Attend(const std::vector<int>& lengths, uint64_t step, bool keep) {
    auto options = std::make_shared<AttentionOptions>();
    options->spec = std::make_shared<const AttentionSpec>(GetParam());
    options->heads = kHeads, options->layer = 3, options->planes_step = step;
    options->sequences = Sequences(CuSeqlens(lengths));
    if (keep) options->drawn = drawn_;
    torch::manual_seed(static_cast<uint64_t>(lengths.size()));
    const Tensor qkv = torch::randn({options->cu_seqlens().back(), SlicesOf(GetParam()) * kHeads * kHeadDim});
    qkv.requires_grad_(true);
    const Tensor out = SelfAttention(qkv, options);
    out.square().sum().backward();
    return {out.detach(), qkv.grad()};
  }
  std::shared_ptr<DrawnProjections> drawn_ = std::make_shared<DrawnProjections>();
};

TEST_P(DrawnProjectionsTest, AreKeptWhileTheStepStays) {
  const auto first = Get({40, 200}, 5);
  EXPECT_EQ(Get({40, 200}, 5), first);
  EXPECT_EQ(Get({7}, 5), first) << "a shorter batch needs no others";
  const auto longer = Get({3000}, 5);
  EXPECT_EQ(Get({40, 200}, 5), longer);
  EXPECT_EQ(Get({3000}, 5), longer);
  if (GetParam().resample == Resample::kNever) {
    EXPECT_EQ(Get({3000}, 6), longer);
  } else {
    const auto next = Get({3000}, 6);
    EXPECT_NE(Drawn(*next), Drawn(*longer));
  }
}

TEST_P(DrawnProjectionsTest, ChangeNoBit) {
  const std::vector<std::vector<int>> batches{{30}, {30, 300}, {5, 17, 90}, {1200, 1, 2, 3}, {30}};
  for (const uint64_t step : {0, 0, 1}) {
    for (const std::vector<int>& lengths : batches) {
      const auto kept = Attend(lengths, step, true), anew = Attend(lengths, step, false);
      EXPECT_TRUE(kept.first.equal(anew.first)) << "step " << step << ", " << lengths.size() << " sequences";
      EXPECT_TRUE(kept.second.equal(anew.second)) << "step " << step << ", " << lengths.size() << " sequences";
    }
  }
}

// Fixed numbers of planes and rotations, and those that grow with the length.
std::vector<AttentionSpec> Specs() {
  std::vector<AttentionSpec> specs{testing::SimHash(Pairs::kFull, Fill::kZero, 2), testing::Sorted(Fill::kMean, 2),
                                   testing::Reformer(2), testing::Reformer(1)};
  As<ReformerAttention>(specs.back()).buckets = {0, 0};
  specs.push_back(testing::Reformer(3));
  As<ReformerAttention>(specs.back()).buckets = {4, 6};
  for (size_t i = 0, count = specs.size(); i < count; ++i) {
    specs.push_back(specs[i]);
    specs.back().resample = Resample::kNever;
  }
  return specs;
}

std::string NameOfCase(const ::testing::TestParamInfo<AttentionSpec>& info) {
  const AttentionSpec& spec = info.param;
  std::string buckets;
  if (Is<ReformerAttention>(spec)) {
    const std::array<int, 2> factors = As<ReformerAttention>(spec).buckets;
    buckets = factors[1] > 0 ? "_factored" : factors[0] > 0 ? "" : "_auto";
  }
  return NameOf(spec) + buckets + (spec.resample == Resample::kNever ? "_never" : "_call");
}

INSTANTIATE_TEST_SUITE_P(All, DrawnProjectionsTest, ::testing::ValuesIn(Specs()), NameOfCase);

}  // namespace
}  // namespace lshformer
