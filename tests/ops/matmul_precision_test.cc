// What linear maps and attention multiply float32 by, as the setting says.
#include "kernels/matmul_precision.h"

#include <gtest/gtest.h>

#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "kernels/packed_linear.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/sequences.h"
#include "util/amx_model.h"

namespace lshformer {
namespace {

using testing::Sequences;
using MatmulPrecisionTest = testing::InAmxModel;

TEST_F(MatmulPrecisionTest, LinearFollowsTheSetting) {
  const torch::NoGradGuard no_grad;
  const Linear linear({torch::randn({64, 128})}, {torch::randn({64})});
  const torch::Tensor x = torch::randn({9, 128}), highest = linear(x);
  SetMatmulPrecision(MatmulPrecision::kMedium);
  const torch::Tensor medium = linear(x);
  EXPECT_GT((medium - highest).abs().max().item<float>(), 1e-3);
  SetMatmulPrecision(MatmulPrecision::kHigh);
  EXPECT_LT((linear(x) - highest).abs().max().item<float>(), 1e-3);
  SetMatmulPrecision(MatmulPrecision::kHighest);
  EXPECT_TRUE(torch::equal(linear(x), highest));
  // Without tiles every word is float32's multiply-add.
  UseAmxModel(false);
  const torch::Tensor fused = linear(x);
  EXPECT_TRUE(torch::equal(highest, fused));
  for (const MatmulPrecision precision : {MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    SetMatmulPrecision(precision);
    EXPECT_TRUE(torch::equal(linear(x), fused));
    EXPECT_FALSE(linear.packed()->in_amx_tiles());
  }
}

// In the model of tiles, and by the instructions where there are some: linear maps and attention, asked and trained.
TEST_F(MatmulPrecisionTest, HighestIsTheSameWithTilesAndWithout) {
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({300, 256}), w = torch::randn({768, 256}) * 0.1, b = torch::randn({768}),
                      g = torch::randn({300, 256});
  const auto run = [&] {
    const auto attend = [](const torch::Tensor& qkv) {
      auto options = std::make_shared<AttentionOptions>();
      options->heads = 4;
      options->operands = OperandsOf(Precision::kFloat32);
      options->sequences = Sequences({0, 300});
      return SelfAttention(qkv, options);
    };
    const std::vector<torch::Tensor> leaves{x.clone().requires_grad_(true), w.clone().requires_grad_(true),
                                            b.clone().requires_grad_(true)};
    const torch::Tensor trained = attend(Linear({leaves[1]}, {leaves[2]})(leaves[0]));
    trained.backward(g);
    const torch::NoGradGuard no_grad;
    const torch::Tensor asked = attend(Linear({w}, {b})(x));
    return std::vector<torch::Tensor>{asked, trained.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  const std::vector<torch::Tensor> in_model = run();
  UseAmxModel(false);
  const std::vector<torch::Tensor> without = run();
  ForceIsa("auto");
  const std::vector<torch::Tensor> by_instructions = run();
  for (size_t i = 0; i < without.size(); ++i) {
    EXPECT_TRUE(torch::equal(in_model[i], without[i])) << i;
    EXPECT_TRUE(torch::equal(by_instructions[i], without[i])) << i;
  }
}

}  // namespace
}  // namespace lshformer
