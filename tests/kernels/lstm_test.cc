// The LSTM's loop against double, values and gradients.
#include "kernels/lstm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/lstm.h"
#include "util/every_isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

// Longest first is not the order; some are alike; one is empty; ten are more than go through the loop together.
const std::vector<int32_t> kLstmLengths{5, 1, 2, 23, 0, 7, 7, 16, 3, 1, 11};

// Both directions of one layer, as a caller runs them.
struct LstmCase {
  LstmCase(const std::vector<int32_t>& lengths, int64_t units, double scale = 1)
      : borders(Borders(lengths)), units(units) {
    for (size_t d = 0; d < 2; ++d) {
      const double spread = 1.5 / std::sqrt(static_cast<double>(units));
      recurrent[d] = Random(4 * units * units, 1 + d, spread);
      sums[d] = Random(rows() * 4 * units, 3 + d, scale);
      grad_hidden[d] = Random(rows() * units, 5 + d);
    }
  }
  int64_t rows() const { return borders.back(); }
  ref::LstmInputs Oracle(size_t d, const std::vector<double>& w, const std::vector<double>& s) const {
    return {units, d == 1, borders, w, s};
  }
  std::vector<int32_t> borders;
  int64_t units;
  std::array<std::vector<float>, 2> recurrent, sums, grad_hidden;
};

struct LstmRun {
  // hidden: [T, 2d], the first direction's first.
  LstmRun(const LstmCase& c, bool keep) : hidden(static_cast<size_t>(c.rows() * 2 * c.units)), gates(c.sums) {
    std::array<LstmDirection, 2> calls;
    for (size_t d = 0; d < 2; ++d) {
      cells[d].resize(static_cast<size_t>(c.rows() * c.units));
      calls[d] = {.units = c.units,
                  .from_last_row = d == 1,
                  .recurrent = c.recurrent[d].data(),
                  .gates = gates[d].data(),
                  .cells = keep ? cells[d].data() : nullptr,
                  .hidden = hidden.data() + static_cast<int64_t>(d) * c.units,
                  .hidden_stride = 2 * c.units};
    }
    RunLstm(calls, c.borders);
    if (!keep) return;
    std::vector<float> grads(hidden.size());
    std::array<LstmDirectionGradient, 2> backward;
    for (size_t d = 0; d < 2; ++d) {
      for (int64_t i = 0; i < c.rows() * c.units; ++i)
        grads[i / c.units * 2 * c.units + static_cast<int64_t>(d) * c.units + i % c.units] = c.grad_hidden[d][i];
      grad_sums[d].resize(gates[d].size());
      backward[d] = {.units = c.units,
                     .from_last_row = d == 1,
                     .recurrent = c.recurrent[d].data(),
                     .gates = gates[d].data(),
                     .cells = cells[d].data(),
                     .grad_hidden = grads.data() + static_cast<int64_t>(d) * c.units,
                     .hidden_stride = 2 * c.units,
                     .grad_sums = grad_sums[d].data()};
    }
    RunLstmGradient(backward, c.borders);
  }
  std::vector<float> Hidden(const LstmCase& c, size_t d) const {
    std::vector<float> own;
    for (int64_t i = 0; i < c.rows() * c.units; ++i)
      own.push_back(hidden[i / c.units * 2 * c.units + static_cast<int64_t>(d) * c.units + i % c.units]);
    return own;
  }
  std::vector<float> hidden;
  std::array<std::vector<float>, 2> gates, cells, grad_sums;
};

class LstmLoopTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, LstmLoopTest, AllIsas(), NameOfIsa);

// Units around the 4, 8 and 16 lanes of a vector and the block of 16 that they are padded to. A gate's sum has `units`
// products, each rounded, and a step hands its error on: some ε · units of the largest number.
TEST_P(LstmLoopTest, ValuesAndGradients) {
  for (const int64_t units : {1, 7, 16, 33}) {
    const LstmCase c(kLstmLengths, units);
    const LstmRun got(c, /*keep=*/true);
    for (size_t d = 0; d < 2; ++d) {
      SCOPED_TRACE(::testing::Message() << units << " units, direction " << d);
      const std::vector<double> w = Wide(c.recurrent[d]), s = Wide(c.sums[d]);
      const ref::LstmResult want = ref::RunLstm(c.Oracle(d, w, s));
      const ref::LstmGradients grads = ref::RunLstmGradient(c.Oracle(d, w, s), Wide(c.grad_hidden[d]));
      const double rounding = 2 * kFloatEps * static_cast<double>(20 + units);
      EXPECT_THAT(got.Hidden(c, d), WithinRounding(want.hidden, rounding));
      EXPECT_THAT(got.cells[d], WithinRounding(want.cells, OfLargest(want.cells, rounding)));
      EXPECT_THAT(got.gates[d], WithinRounding(want.gates, rounding));
      EXPECT_THAT(got.grad_sums[d], WithinRounding(grads.sums, OfLargest(grads.sums, 2 * rounding)));
      std::vector<float> before(got.cells[d].size(), NAN);
      HiddenBefore(got.hidden.data() + static_cast<int64_t>(d) * units, 2 * units, units, d == 1, c.borders,
                   before.data());
      EXPECT_THAT(before, WithinRounding(want.before, rounding));
    }
    EXPECT_EQ(LstmRun(c, /*keep=*/false).hidden, got.hidden);
  }
}

TEST(LstmLoop, ASequenceAloneHasTheBitsThatItHasInABatchOnAnyNumberOfThreads) {
  const LstmCase all(kLstmLengths, 37);
  SetThreads(1);
  const LstmRun want(all, /*keep=*/true);
  SetThreads(5);
  const LstmRun again(all, /*keep=*/true);
  SetThreads(HardwareThreads());
  EXPECT_EQ(again.hidden, want.hidden);
  EXPECT_EQ(again.grad_sums, want.grad_sums);
  for (size_t b = 0; b < kLstmLengths.size(); ++b) {
    LstmCase alone({kLstmLengths[b]}, 37);
    const auto own = [&](const std::vector<float>& rows, int64_t columns) {
      return std::vector<float>(rows.begin() + all.borders[b] * columns, rows.begin() + all.borders[b + 1] * columns);
    };
    for (size_t d = 0; d < 2; ++d) {
      alone.recurrent[d] = all.recurrent[d];
      alone.sums[d] = own(all.sums[d], 4 * 37);
      alone.grad_hidden[d] = own(all.grad_hidden[d], 37);
    }
    const LstmRun got(alone, /*keep=*/true);
    EXPECT_EQ(got.hidden, own(want.hidden, 2 * 37)) << b;
    for (size_t d = 0; d < 2; ++d) EXPECT_EQ(got.grad_sums[d], own(want.grad_sums[d], 4 * 37)) << b;
  }
}

// Saturated gates: σ and tanh at their ends, without overflow on the way.
TEST_P(LstmLoopTest, HugeSumsStayFinite) {
  const LstmCase c(kLstmLengths, 16, 1e30);
  const LstmRun got(c, /*keep=*/true);
  for (const auto* numbers : {&got.hidden, &got.cells[0], &got.grad_sums[0], &got.grad_sums[1]})
    EXPECT_THAT(*numbers, ::testing::Each(::testing::Truly([](float x) { return std::isfinite(x); })));
}

TEST(LstmLoop, NoRowsAreNoWork) {
  const LstmCase c({0, 0}, 6);
  EXPECT_TRUE(LstmRun(c, /*keep=*/true).hidden.empty());
}

TEST(LstmOracle, IsItsDefinition) {
  const LstmCase c({3}, 1);
  for (const size_t d : {0, 1}) {
    const std::vector<double> w = Wide(c.recurrent[d]), s = Wide(c.sums[d]);
    const ref::LstmResult got = ref::RunLstm(c.Oracle(d, w, s));
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    double hidden = 0, cell = 0;
    for (int step = 0; step < 3; ++step) {
      const int row = d == 0 ? step : 2 - step;
      const auto sum = [&](int gate) { return s[row * 4 + gate] + w[gate] * hidden; };
      cell = sigmoid(sum(1)) * cell + sigmoid(sum(0)) * std::tanh(sum(2));
      hidden = sigmoid(sum(3)) * std::tanh(cell);
      EXPECT_NEAR(got.hidden[row], hidden, 1e-14);
    }
  }
}

TEST(LstmOracle, HasTheGradientsOfFiniteDifferences) {
  const LstmCase c({3, 1, 4}, 4);
  for (const size_t d : {0, 1}) {
    const std::vector<double> w = Wide(c.recurrent[d]), s = Wide(c.sums[d]), g = Wide(c.grad_hidden[d]);
    const ref::LstmGradients grads = ref::RunLstmGradient(c.Oracle(d, w, s), g);
    const auto loss = [&](const std::vector<double>& recurrent, const std::vector<double>& sums) {
      const ref::LstmResult result = ref::RunLstm(c.Oracle(d, recurrent, sums));
      double sum = 0;
      for (size_t i = 0; i < g.size(); ++i) sum += result.hidden[i] * g[i];
      return sum;
    };
    ExpectGradient([&](const auto& moved) { return loss(w, moved); }, s, grads.sums, "sums");
    ExpectGradient([&](const auto& moved) { return loss(moved, s); }, w, grads.recurrent, "recurrent");
  }
}

}  // namespace
}  // namespace lshformer::testing
