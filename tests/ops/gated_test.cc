#include "ops/gated.h"

#include <gtest/gtest.h>

#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/matmul.h"
#include "ops/linear.h"
#include "ops/op_checks.h"
#include "util/errors.h"

namespace lshformer::testing {
namespace {

TEST(GatedProductTest, AgreesWithItsTwin) {
  for (const UnaryFunction function : {UnaryFunction::kGelu, UnaryFunction::kSilu}) {
    const TensorFunction op = [=](const auto& in) { return GatedProduct(function, in[0]); };
    const TensorFunction reference = [=](const auto& in) { return GatedProductReference(function, in[0]); };
    ExpectSameAsReference(op, reference, {Normal({19, 2 * 21}, 1)});
    ExpectGradientsOf(reference, {Normal({3, 8}, 2)});
  }
}

TEST(GatedProductTest, TakesTwoHalves) {
  EXPECT_EQ(ErrorOf([] {
              GatedProduct(UnaryFunction::kGelu, torch::zeros({2, 3}));
            }),
            "gated product: expected [rows, 2 · columns], got [2, 3]");
}

// Two maps with a gate between them: without gradients, by pieces of rows, what they are with gradients; in low
// precision near it; in tiles too.
TEST(GatedProductTest, BetweenTwoMaps) {
  torch::manual_seed(3);
  const torch::Tensor x = torch::randn({700, 40});
  const Linear first({torch::randn({66, 40}) / 6}, {torch::randn({66})}),
      second({torch::randn({24, 33}) / 5}, {torch::randn({24})});
  const torch::Tensor want = first.ThenGated(UnaryFunction::kSilu, second, x);
  const torch::NoGradGuard no_grad;
  const double largest = want.abs().max().item<double>();
  for (const bool amx_model : {false, true}) {
    UseAmxModel(amx_model);
    for (const auto& [precision, tolerance] :
         {std::pair(Precision::kFloat32, 1e-5), {Precision::kBFloat16, 2e-2}, {Precision::kInt8, 6e-2}}) {
      if (!amx_model && !SupportsProducts(precision)) continue;
      const torch::Tensor got = first.ThenGated(UnaryFunction::kSilu, second, x, precision);
      EXPECT_LE((got - want).abs().max().item<double>(), tolerance * largest) << Name(precision);
      const torch::Tensor alone = first.ThenGated(UnaryFunction::kSilu, second, x.slice(0, 333, 336), precision);
      EXPECT_TRUE(alone.equal(got.slice(0, 333, 336))) << "a row depends on others";
    }
  }
  UseAmxModel(false);
  EXPECT_EQ(ErrorOf([&] { first.ThenGated(UnaryFunction::kSilu, first, x); }),
            "linear: 66 outputs for a map of 40 inputs");
}

}  // namespace
}  // namespace lshformer::testing
