#include "ops/lstm.h"

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

// Longest first is not the order; some are alike; one is empty; ten are more than go through the loop together.
const std::vector<int32_t> kLengths{5, 1, 2, 23, 0, 7, 7, 16, 3, 1, 11};
constexpr int64_t kInputs = 19;

// x and the weights of both directions.
std::vector<Tensor> Inputs(const std::vector<int32_t>& lengths, int64_t units, uint64_t seed, int64_t in = kInputs) {
  const double scale = 1 / std::sqrt(static_cast<double>(units));
  std::vector<Tensor> inputs{Normal({Borders(lengths).back(), in}, seed)};
  for (int direction = 0; direction < 2; ++direction)
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{4 * units, in}, {4 * units, units}, {4 * units}, {4 * units}})
      inputs.push_back(Normal(shape, ++seed, 1.5 * scale));
  return inputs;
}

template <class Op>
Tensor RunLayer(const Op& op, const std::vector<Tensor>& in, const std::vector<int32_t>& lengths) {
  return op(in[0], Borders(lengths), LstmWeights{in[1], in[2], in[3], in[4]}, LstmWeights{in[5], in[6], in[7], in[8]});
}
auto Op(const std::vector<int32_t>& lengths) {
  return [&lengths](const std::vector<Tensor>& in) { return RunLayer(BiLstm, in, lengths); };
}
auto Reference(const std::vector<int32_t>& lengths) {
  return [&lengths](const std::vector<Tensor>& in) { return RunLayer(BiLstmReference, in, lengths); };
}

// A gate's sum has in + units products, each rounded, and a step hands its error on: ε·(in + units) of the largest
// number.
TEST(Lstm, AgreesWithLibtorchInDouble) {
  for (const int64_t units : {1, 17}) {
    SCOPED_TRACE(units);
    ExpectSameAsReference(Op(kLengths), Reference(kLengths), Inputs(kLengths, units, 3),
                          1.2e-7 * static_cast<double>(kInputs + units));
  }
}

TEST(Lstm, IsItsDefinition) {
  const std::vector<int32_t> lengths{3};
  const std::vector<Tensor> in = Inputs(lengths, 4, 5);
  const Tensor y = RunLayer(BiLstmReference, in, lengths);
  for (const int direction : {0, 1}) {
    const Tensor *w = &in[1 + 4 * direction], x = in[0];
    Tensor h = torch::zeros({4}, torch::kFloat64), c = torch::zeros({4}, torch::kFloat64);
    for (int step = 0; step < 3; ++step) {
      const int row = direction == 0 ? step : 2 - step;
      const Tensor sums = torch::mv(w[0], x[row]) + w[2] + torch::mv(w[1], h) + w[3];
      const auto gate = [&](int64_t number) { return sums.narrow(0, 4 * number, 4); };
      c = torch::sigmoid(gate(1)) * c + torch::sigmoid(gate(0)) * torch::tanh(gate(2));
      h = torch::sigmoid(gate(3)) * torch::tanh(c);
      EXPECT_LT((y[row].narrow(0, 4 * direction, 4) - h).abs().max().item<double>(), 1e-14);
    }
  }
}

TEST(Lstm, ReferenceHasTheGradientsOfFiniteDifferences) {
  const std::vector<int32_t> lengths{3, 1};
  ExpectGradientsOf(Reference(lengths), Inputs(lengths, 4, 7, 3));
}

TEST(Lstm, ASequenceAloneHasTheBitsThatItHasInABatch) {
  const std::vector<Tensor> in = Inputs(kLengths, 100, 9);
  const auto all = testing::ResultAndGradients(Op(kLengths), in);
  const Tensor g = Normal(all[0].sizes().vec(), 97).to(torch::kFloat32);
  const std::vector<int32_t> borders = Borders(kLengths);
  for (size_t b = 0; b < kLengths.size(); ++b) {
    if (kLengths[b] == 0) continue;
    std::vector<Tensor> alone;
    for (const Tensor& input : in) alone.push_back(input.to(torch::kFloat32));
    alone[0] = alone[0].narrow(0, borders[b], kLengths[b]).clone().requires_grad_(true);
    const std::vector<int32_t> length{kLengths[b]};
    const Tensor y = RunLayer(BiLstm, alone, length);
    y.backward(g.narrow(0, borders[b], kLengths[b]).contiguous());
    EXPECT_TRUE(y.equal(all[0].narrow(0, borders[b], kLengths[b]))) << b;
    EXPECT_TRUE(alone[0].grad().equal(all[1].narrow(0, borders[b], kLengths[b]))) << b;
  }
}

TEST(Lstm, ThreadsDoNotChangeResultsAndTheInputsGradient) {
  ExpectSameForAllThreads(Op(kLengths), Inputs(kLengths, 100, 11), 2);
}

TEST(Lstm, WithoutGradientsTheSameBits) {
  const std::vector<Tensor> in = Inputs(kLengths, 33, 13);
  const Tensor want = testing::ResultAndGradients(Op(kLengths), in)[0];
  std::vector<Tensor> single;
  for (const Tensor& input : in) single.push_back(input.to(torch::kFloat32));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(RunLayer(BiLstm, single, kLengths).equal(want));
}

// A backward may be asked for twice, and keeps what it read.
TEST(Lstm, ASecondBackwardGivesTheSame) {
  std::vector<Tensor> in;
  for (const Tensor& input : Inputs(kLengths, 20, 15)) in.push_back(input.to(torch::kFloat32).requires_grad_(true));
  const Tensor sum = RunLayer(BiLstm, in, kLengths).square().sum();
  sum.backward({}, /*keep_graph=*/true);
  const Tensor once = in[0].grad().clone();
  sum.backward();
  EXPECT_TRUE(in[0].grad().equal(2 * once));
}

TEST(Lstm, OneBiasIsEnough) {
  std::vector<Tensor> in;
  for (const Tensor& input : Inputs(kLengths, 8, 17)) in.push_back(input.to(torch::kFloat32));
  const auto run = [&](const auto& op) {
    return op(in[0], Borders(kLengths), LstmWeights{in[1], in[2], in[3], {}}, LstmWeights{in[5], in[6], in[7], {}});
  };
  const Tensor want = run(BiLstmReference);
  EXPECT_LT((run(BiLstm) - want).abs().max().item<double>(), 1.2e-7 * (kInputs + 8));
  in[4].zero_(), in[8].zero_();
  EXPECT_TRUE(run(BiLstm).equal(RunLayer(BiLstm, in, kLengths)));
}

TEST(Lstm, NoRowsGiveNoRows) {
  const std::vector<int32_t> nothing{0, 0};
  const auto all = testing::ResultAndGradients(Op(nothing), Inputs(nothing, 6, 21));
  EXPECT_EQ(all[0].sizes(), (std::vector<int64_t>{0, 12}));
  EXPECT_EQ(all[2].abs().max().item<float>(), 0);
}

TEST(Lstm, RefusesWhatDoesNotFit) {
  std::vector<Tensor> in = Inputs(kLengths, 8, 23);
  EXPECT_THAT(ErrorOf([&] { RunLayer(BiLstm, in, {3, 4}); }), HasSubstr("76 rows, but the sequences have 7"));
  in[6] = in[6].narrow(1, 0, 7);
  EXPECT_THAT(ErrorOf([&] { RunLayer(BiLstm, in, kLengths); }), HasSubstr("LSTM of 8 units"));
}

}  // namespace
}  // namespace lshformer
