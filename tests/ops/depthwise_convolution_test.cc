#include "ops/depthwise_convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::Borders;
using testing::ErrorOf;
using testing::ExpectGradientsOf;
using testing::ExpectSameAsReference;
using testing::ExpectSameForAllThreads;
using ::testing::HasSubstr;
using testing::Normal;
using torch::Tensor;

// Around the widths 1 to 7, around the 64 rows of a piece of work, and none.
const std::vector<int32_t> kLengths{1, 2, 4, 0, 5, 6, 3, 7, 8, 63, 64, 65, 0, 200, 1};

auto Op(const std::vector<int32_t>& lengths) {
  return [&lengths](const std::vector<Tensor>& in) { return DepthwiseConvolution(in[0], in[1], Borders(lengths)); };
}
auto Reference(const std::vector<int32_t>& lengths) {
  return [&lengths](const std::vector<Tensor>& in) {
    return DepthwiseConvolutionReference(in[0], in[1], Borders(lengths));
  };
}
std::vector<Tensor> Inputs(const std::vector<int32_t>& lengths, int64_t channels, int64_t width, uint64_t seed) {
  return {Normal({Borders(lengths).back(), channels}, seed), Normal({channels, width}, seed + 1)};
}

// A result is a sum of at most 9 products: a few ε of the largest. A weight's gradient is one over all rows, by blocks
// of 64: ε·64 of it at most, and far less where signs vary.
TEST(DepthwiseConvolution, AgreesWithLibtorchInDouble) {
  for (const int64_t channels : {1, 19})
    for (const int64_t width : {1, 7}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels, width " << width);
      ExpectSameAsReference(Op(kLengths), Reference(kLengths), Inputs(kLengths, channels, width, 3), 1e-6);
    }
}

TEST(DepthwiseConvolution, IsItsDefinition) {
  const std::vector<int32_t> lengths{4, 1};
  const std::vector<Tensor> in = Inputs(lengths, 2, 3, 5);
  const Tensor y = Reference(lengths)(in), x = in[0], w = in[1];
  const auto expect = [&](int row, const Tensor& want) {
    EXPECT_LT((y[row] - want).abs().max().item<double>(), 1e-14) << row;
  };
  const auto tap = [&](int64_t j) { return w.select(1, j); };
  expect(0, tap(1) * x[0] + tap(2) * x[1]);
  expect(2, tap(0) * x[1] + tap(1) * x[2] + tap(2) * x[3]);
  expect(3, tap(0) * x[2] + tap(1) * x[3]);
  expect(4, tap(1) * x[4]);
}

TEST(DepthwiseConvolution, ReferenceHasTheGradientsOfFiniteDifferences) {
  const std::vector<int32_t> lengths{4, 1, 3};
  ExpectGradientsOf(Reference(lengths), Inputs(lengths, 3, 5, 7));
}

TEST(DepthwiseConvolution, ASequenceAloneHasTheBitsThatItHasInABatch) {
  const std::vector<Tensor> in = Inputs(kLengths, 96, 7, 9);
  const auto all = testing::ResultAndGradients(Op(kLengths), in);
  const Tensor g = Normal(all[0].sizes().vec(), 97).to(torch::kFloat32);
  const std::vector<int32_t> borders = Borders(kLengths);
  for (size_t b = 0; b < kLengths.size(); ++b) {
    const auto own = [&](const Tensor& rows) { return rows.narrow(0, borders[b], kLengths[b]); };
    const Tensor x = own(in[0]).to(torch::kFloat32).clone().requires_grad_(true);
    const Tensor y = DepthwiseConvolution(x, in[1].to(torch::kFloat32), {0, kLengths[b]});
    y.backward(own(g).contiguous());
    EXPECT_TRUE(y.equal(own(all[0]))) << b;
    EXPECT_TRUE(x.grad().equal(own(all[1]))) << b;
  }
}

TEST(DepthwiseConvolution, ThreadsChangeNothing) {
  ExpectSameForAllThreads(Op(kLengths), Inputs(kLengths, 40, 5, 11), 3);
}

TEST(DepthwiseConvolution, RefusesWhatDoesNotFit) {
  const Tensor x = torch::zeros({5, 4});
  EXPECT_THAT(ErrorOf([&] { DepthwiseConvolution(x, torch::zeros({4, 2}), {0, 5}); }), HasSubstr("odd width"));
  EXPECT_THAT(ErrorOf([&] { DepthwiseConvolution(x, torch::zeros({3, 3}), {0, 5}); }), HasSubstr("weight [3, 3]"));
  EXPECT_THAT(ErrorOf([&] { DepthwiseConvolution(x, torch::zeros({4, 3}), {0, 6}); }), HasSubstr("sequences have 6"));
}

}  // namespace
}  // namespace lshformer
