// Training in AMX tiles: a linear map and the masked-LM loss, whose products are of float32 by parts.
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/decoder_cross_entropy.h"
#include "kernels/matmul_precision.h"
#include "ops/decoder_cross_entropy.h"
#include "ops/linear.h"
#include "ops/threads.h"
#include "util/amx_model.h"

namespace lshformer {
namespace {

class SplitProductTest : public testing::InAmxModel {
 protected:
  ~SplitProductTest() override { SetAllThreads(HardwareThreads()); }
};

// A linear map's result and gradients: near those of multiply-add, the same on any number of threads, of a row alone,
// and without tiles those of multiply-add.
TEST_F(SplitProductTest, LinearInTraining) {
  torch::manual_seed(4);
  const torch::Tensor x = torch::randn({150, 160}), w = torch::randn({192, 160}), b = torch::randn({192}),
                      g = torch::randn({150, 192});
  const auto run = [&](MatmulPrecision precision, int64_t rows = 150) {
    SetMatmulPrecision(precision);
    const std::vector<torch::Tensor> leaves{x.slice(0, 0, rows).clone().requires_grad_(true),
                                            w.clone().requires_grad_(true), b.clone().requires_grad_(true)};
    const torch::Tensor y = Linear({leaves[1]}, {leaves[2]})(leaves[0]);
    y.backward(g.slice(0, 0, rows));
    return std::vector<torch::Tensor>{y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  UseAmxModel(false);
  const std::vector<torch::Tensor> fused = run(MatmulPrecision::kHighest), high_without = run(MatmulPrecision::kHigh);
  UseAmxModel(true);
  SetAllThreads(1);
  const std::vector<torch::Tensor> high = run(MatmulPrecision::kHigh), medium = run(MatmulPrecision::kMedium);
  SetAllThreads(3);
  const std::vector<torch::Tensor> again = run(MatmulPrecision::kHigh), part = run(MatmulPrecision::kHigh, 77);
  const auto error = [](const torch::Tensor& got, const torch::Tensor& want) {
    return ((got - want).abs().max() / want.std()).item<double>();
  };
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(torch::equal(high_without[i], fused[i]));
    EXPECT_LT(error(high[i], fused[i]), 2.5e-5);
    EXPECT_GT(error(high[i], fused[i]), 4e-6) << "not in tiles";
    EXPECT_LT(error(medium[i], fused[i]), 2e-2);
    EXPECT_GT(error(medium[i], fused[i]), 1e-3) << "not in tiles";
    EXPECT_TRUE(torch::equal(again[i], high[i]));
    if (i < 2) {
      EXPECT_TRUE(torch::equal(part[i], high[i].slice(0, 0, 77)));
    }
  }
  EXPECT_TRUE(torch::equal(medium[3], fused[3])) << "the bias' gradient is a sum of float32";
  // What is asked gets the bits of what is trained.
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(Linear({w}, {b})(x), high[0]));
}

TEST_F(SplitProductTest, CrossEntropyInTraining) {
  torch::manual_seed(5);
  const torch::Tensor hidden = torch::randn({kCrossEntropyRows + 40, 128}), weight = torch::randn({300, 128}) * 0.2;
  const auto run = [&](MatmulPrecision precision) {
    SetMatmulPrecision(precision);
    const torch::Tensor h = hidden.clone().requires_grad_(true), w = weight.clone().requires_grad_(true);
    const torch::Tensor loss =
        DecoderCrossEntropy(h, w, torch::zeros({300}), std::vector<int32_t>(kCrossEntropyRows + 40, 5));
    loss.backward();
    return std::vector<torch::Tensor>{loss.detach(), h.grad(), w.grad()};
  };
  UseAmxModel(false);
  const std::vector<torch::Tensor> fused = run(MatmulPrecision::kHigh);
  UseAmxModel(true);
  SetAllThreads(1);
  const std::vector<torch::Tensor> alone = run(MatmulPrecision::kHigh);
  SetAllThreads(3);
  const std::vector<torch::Tensor> three = run(MatmulPrecision::kHigh);
  EXPECT_NEAR(alone[0].item<double>(), fused[0].item<double>(), 1e-5 * fused[0].item<double>());
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_FALSE(torch::equal(alone[i], fused[i])) << "not in tiles";
    EXPECT_LT(((alone[i] - fused[i]).abs().max() / fused[i].abs().max()).item<double>(), 5e-5);
    EXPECT_TRUE(torch::equal(three[i], alone[i]));
  }
}

}  // namespace
}  // namespace lshformer
