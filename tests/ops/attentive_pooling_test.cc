#include "ops/attentive_pooling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "ops/threads.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using torch::Tensor;

const std::vector<int32_t> kBorders{0, 1, 8, 40, 42};

struct Call {
  Tensor scores, x, y;
};

template <class Op>
Call RunOp(const Op& op, torch::ScalarType type) {
  torch::manual_seed(5);
  Call call{
      (3 * torch::randn({42})).to(type).requires_grad_(true), torch::randn({42, 9}).to(type).requires_grad_(true), {}};
  const Tensor weight = torch::randn({4, 9}).to(type);
  call.y = op(call.scores, call.x, kBorders);
  (call.y * weight).sum().backward();
  return call;
}

void ExpectNear(const Tensor& got, const Tensor& want) {
  EXPECT_LE((got.to(torch::kFloat64) - want).abs().max().item<double>(), 1e-6 * want.abs().max().item<double>());
}

TEST(AttentivePoolingTest, IsTheMeanUnderASoftmax) {
  const Call exact = RunOp(AttentivePoolingReference, torch::kFloat64);
  for (const int threads : {1, 3}) {
    SetAllThreads(threads);
    const Call got = RunOp(AttentivePooling, torch::kFloat32);
    ExpectNear(got.y, exact.y);
    ExpectNear(got.x.grad(), exact.x.grad());
    ExpectNear(got.scores.grad(), exact.scores.grad());
  }
  SetAllThreads(HardwareThreads());
}

TEST(AttentivePoolingTest, ReferenceHasTheGradientOfFiniteDifferences) {
  const Call exact = RunOp(AttentivePoolingReference, torch::kFloat64);
  torch::manual_seed(5);
  Tensor scores = (3 * torch::randn({42})).to(torch::kFloat64);
  const Tensor x = torch::randn({42, 9}).to(torch::kFloat64), weight = torch::randn({4, 9}).to(torch::kFloat64);
  for (const int64_t t : {0, 3, 20, 41}) {
    const auto loss = [&](double change) {
      Tensor moved = scores.clone();
      moved[t] += change;
      return (AttentivePoolingReference(moved, x, kBorders) * weight).sum().item<double>();
    };
    EXPECT_NEAR((loss(1e-6) - loss(-1e-6)) / 2e-6, exact.scores.grad()[t].item<double>(), 1e-7);
  }
}

TEST(AttentivePoolingTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(ErrorOf([] {
                AttentivePooling(torch::ones({4}), torch::ones({4, 2}), {0, 4, 4});
              }),
              HasSubstr("sequence 1 is empty"));
  EXPECT_THAT(ErrorOf([] {
                AttentivePooling(torch::ones({3}), torch::ones({4, 2}), {0, 4});
              }),
              HasSubstr("scores [3] and rows [4, 2] of 4 tokens"));
}

}  // namespace
}  // namespace lshformer
