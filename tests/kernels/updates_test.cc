// The updates of optimizers against double, on every instruction set.
#include "kernels/updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/philox.h"
#include "kernels/ref/updates.h"
#include "util/every_isa.h"

namespace lshformer::testing {
namespace {

using Floats = std::vector<float>;
constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

class UpdateKernelTest : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, UpdateKernelTest, AllIsas(), NameOfIsa);

// Numbers over many magnitudes; an array begins one element into its memory, so at no vector's border.
Floats DrawElements(int64_t count, uint64_t seed, bool positive = false) {
  PhiloxStream random(seed);
  Floats values(static_cast<size_t>(count) + 1);
  for (float& value : values) {
    value = static_cast<float>(random.Normal() * std::pow(10, random.Normal()));
    if (positive) value = value * value;
  }
  return values;
}

constexpr LambUpdate kUpdate{.beta1 = 0.8f,
                             .beta2 = 0.98f,
                             .one_minus_beta1 = 0.2f,
                             .one_minus_beta2 = 0.02f,
                             .gradient_scale = 0.25f,
                             .decay = 0.1f,
                             .epsilon = 1e-6f};

struct LambState {
  Floats gradient, parameter, average, square;
  explicit LambState(int64_t count)
      : gradient(DrawElements(count, 1)),
        parameter(DrawElements(count, 2)),
        average(DrawElements(count, 3)),
        square(DrawElements(count, 4, true)) {}
  LambSquares Moments(const LambUpdate& update, bool no_gradient, int64_t count) {
    return UpdateLambMoments(update, no_gradient ? nullptr : gradient.data() + 1, parameter.data() + 1,
                             average.data() + 1, square.data() + 1, count);
  }
};

std::vector<int64_t> Counts() { return {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 1000, 32768}; }

TEST_P(UpdateKernelTest, LambIsItsFormula) {
  for (const int64_t count : Counts()) {
    LambState got(count);
    const LambState before = got;
    const LambSquares squares = got.Moments(kUpdate, /*no_gradient=*/false, count);
    EXPECT_EQ(got.parameter, before.parameter);  // the first pass only reads it
    const Floats moments[2] = {got.average, got.square};
    constexpr float kStep = 0.37f;
    StepLamb(kUpdate, kStep, got.average.data() + 1, got.square.data() + 1, got.parameter.data() + 1, count);
    EXPECT_EQ(got.average, moments[0]);  // the second reads them
    EXPECT_EQ(got.square, moments[1]);
    double weights = 0, updates = 0;
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) {
      const double g = double{kUpdate.gradient_scale} * before.gradient[i], w = before.parameter[i];
      const double size = double{kUpdate.beta1} * std::abs(before.average[i]) + kUpdate.one_minus_beta1 * std::abs(g);
      const double square = ref::MovingMean(kUpdate.beta2, before.square[i], kUpdate.one_minus_beta2, g * g);
      ASSERT_NEAR(got.average[i], ref::MovingMean(kUpdate.beta1, before.average[i], kUpdate.one_minus_beta1, g),
                  2 * kEpsilon * size);
      ASSERT_NEAR(got.square[i], square, 4 * kEpsilon * square);
      // From here on of the moments as they were rounded.
      const double u = ref::LambDirection(kUpdate, w, got.average[i], got.square[i]), decay = kUpdate.decay * w;
      const double rounding = 4 * kEpsilon * (std::abs(u - decay) + std::abs(decay));
      ASSERT_NEAR(got.parameter[i], w - double{kStep} * u, kStep * rounding + 2 * kEpsilon * std::abs(w))
          << count << " " << i;
      weights += w * w;
      updates += u * u;
    }
    EXPECT_NEAR(squares.parameter, weights, 1e-13 * weights) << count;
    EXPECT_NEAR(squares.update, updates, 20 * kEpsilon * updates) << count;
    for (const auto* values : {&got.average, &got.square, &got.parameter}) {
      const auto& old = values == &got.average  ? before.average
                        : values == &got.square ? before.square
                                                : before.parameter;
      EXPECT_EQ((*values)[0], old[0]);  // what stands in front is no one's
    }
  }
}

TEST_P(UpdateKernelTest, LambTakesNoGradientAsZeros) {
  for (const int64_t count : Counts()) {
    LambState zeros(count), none(count);
    std::fill(zeros.gradient.begin(), zeros.gradient.end(), 0.0f);
    const LambSquares want = zeros.Moments(kUpdate, /*no_gradient=*/false, count),
                      got = none.Moments(kUpdate, /*no_gradient=*/true, count);
    EXPECT_EQ(got.parameter, want.parameter);
    EXPECT_EQ(got.update, want.update);
    EXPECT_EQ(none.average, zeros.average);
    EXPECT_EQ(none.square, zeros.square);
  }
}

// Of those that need no norm: a parameter, its gradient and two running means, each one element into its memory.
struct PlainState {
  Floats gradient, parameter, first, second;
  PlainState(int64_t count, bool positive_first)
      : gradient(DrawElements(count, 1)),
        parameter(DrawElements(count, 2)),
        first(DrawElements(count, 3, positive_first)),
        second(DrawElements(count, 4, true)) {}
  template <class Kernel>
  void Run(const Kernel& kernel, int64_t count, bool no_gradient = false) {
    kernel(no_gradient ? nullptr : gradient.data() + 1, parameter.data() + 1, first.data() + 1, second.data() + 1,
           count);
  }
};

// scale · gradient + decay · parameter, and how far a kernel may be from it.
struct Decayed {
  double value, rounding;
  Decayed(float scale, float gradient, float decay, float parameter)
      : value(ref::ScaledGradient(scale, gradient, decay, parameter)),
        rounding(2 * kEpsilon * (std::abs(double{scale} * gradient) + std::abs(double{decay} * parameter))) {}
};

// keep · old + share · g², and how far a kernel may be from it.
struct MeanSquare {
  double value, rounding;
  MeanSquare(float keep, float old, float share, double x, double rounding_of_x)
      : value(ref::MovingMean(keep, old, share, x * x)),
        rounding(4 * kEpsilon * value + double{share} * rounding_of_x * (2 * std::abs(x) + rounding_of_x)) {}
};

constexpr float kDecay = 0.1f, kScale = 0.25f;

TEST_P(UpdateKernelTest, AdamIsItsFormula) {
  const AdamWUpdate update{.beta1 = 0.8f,
                           .beta2 = 0.98f,
                           .one_minus_beta1 = 0.2f,
                           .one_minus_beta2 = 0.02f,
                           .gradient_scale = kScale,
                           .keep = 1,
                           .step_size = 0.37f,
                           .root_scale = 1.3f,
                           .epsilon = 1e-6f};
  const auto kernel = [&](const float* gradient, float* parameter, float* first, float* second, int64_t count) {
    UpdateAdam(update, kDecay, gradient, parameter, first, second, count);
  };
  for (const int64_t count : Counts()) {
    const PlainState before(count, /*positive_first=*/false);
    PlainState got = before;
    got.Run(kernel, count);
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) {
      const double w = before.parameter[i];
      const Decayed g(kScale, before.gradient[i], kDecay, before.parameter[i]);
      const double old = double{update.beta1} * before.first[i], added = double{update.one_minus_beta1} * g.value;
      ASSERT_NEAR(got.first[i], old + added, 2 * kEpsilon * (std::abs(old) + std::abs(added)) + g.rounding);
      const MeanSquare square(update.beta2, before.second[i], update.one_minus_beta2, g.value, g.rounding);
      ASSERT_NEAR(got.second[i], square.value, square.rounding);
      // From here on of the moments as they were rounded.
      const double want = ref::AdamWParameter(update, w, got.first[i], got.second[i]);
      ASSERT_NEAR(got.parameter[i], want, 6 * kEpsilon * std::abs(w - want) + 2 * kEpsilon * std::abs(w))
          << count << " " << i;
    }
    EXPECT_EQ(got.parameter[0], before.parameter[0]);  // what stands in front is no one's
  }
}

TEST_P(UpdateKernelTest, AdamWIsItsFormula) {
  const AdamWUpdate update{.beta1 = 0.8f,
                           .beta2 = 0.98f,
                           .one_minus_beta1 = 0.2f,
                           .one_minus_beta2 = 0.02f,
                           .gradient_scale = kScale,
                           .keep = 0.75f,
                           .step_size = 0.37f,
                           .root_scale = 1.3f,
                           .epsilon = 1e-6f};
  const auto kernel = [&](const float* gradient, float* parameter, float* first, float* second, int64_t count) {
    UpdateAdamW(update, gradient, parameter, first, second, count);
  };
  for (const int64_t count : Counts()) {
    const PlainState before(count, /*positive_first=*/false);
    PlainState got = before, none = before;
    got.Run(kernel, count);
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) {
      const double g = ref::ScaledGradient(kScale, before.gradient[i], 0, 0);
      const double size = double{update.beta1} * std::abs(before.first[i]) + update.one_minus_beta1 * std::abs(g);
      ASSERT_NEAR(got.first[i], ref::MovingMean(update.beta1, before.first[i], update.one_minus_beta1, g),
                  2 * kEpsilon * size);
      const double want = ref::AdamWParameter(update, before.parameter[i], got.first[i], got.second[i]);
      const double kept = double{update.keep} * before.parameter[i];
      ASSERT_NEAR(got.parameter[i], want, 6 * kEpsilon * std::abs(kept - want) + 2 * kEpsilon * std::abs(kept));
    }
    PlainState zeros = before;
    std::fill(zeros.gradient.begin(), zeros.gradient.end(), 0.0f);
    zeros.Run(kernel, count);
    none.Run(kernel, count, /*no_gradient=*/true);
    EXPECT_EQ(none.parameter, zeros.parameter);
  }
}

constexpr MuonUpdate kMuon{.momentum = 0.95f, .one_minus_momentum = 0.05f, .gradient_scale = kScale};

TEST_P(UpdateKernelTest, MuonIsItsFormula) {
  for (const int64_t count : Counts()) {
    const Floats gradient = DrawElements(count, 1), before = DrawElements(count, 2);
    Floats buffer = before, direction = DrawElements(count, 3);
    const float in_front = direction[0];
    UpdateMuonMomentum(kMuon, gradient.data() + 1, buffer.data() + 1, direction.data() + 1, count);
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) {
      const double share = double{kMuon.one_minus_momentum} * kScale * std::abs(gradient[i]);
      const double kept = double{kMuon.momentum} * std::abs(before[i]);
      ASSERT_NEAR(buffer[i], ref::MuonDirection(kMuon, gradient[i], before[i]), 2 * kEpsilon * (share + kept));
      // Of the momentum as it was rounded.
      ASSERT_NEAR(direction[i], ref::MuonDirection(kMuon, gradient[i], buffer[i]),
                  2 * kEpsilon * (share + std::abs(buffer[i])));
    }
    EXPECT_EQ(buffer[0], before[0]);  // what stands in front is no one's
    EXPECT_EQ(direction[0], in_front);
    Floats along = before;
    StepAlong(0.75f, 0.37f, direction.data() + 1, along.data() + 1, count);
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) {
      const double step = 0.37f * std::abs(double{direction[i]});
      ASSERT_NEAR(along[i], ref::ParameterAlong(0.75f, 0.37f, direction[i], before[i]),
                  kEpsilon * (std::abs(before[i]) + step));
    }
    EXPECT_EQ(along[0], before[0]);
  }
}

TEST_P(UpdateKernelTest, MuonTakesNoGradientAsZeros) {
  for (const int64_t count : Counts()) {
    const Floats zeros(static_cast<size_t>(count), 0.0f);
    Floats buffer = DrawElements(count, 2), direction(buffer.size(), 0.0f), none = buffer, towards = direction;
    UpdateMuonMomentum(kMuon, zeros.data(), buffer.data() + 1, direction.data() + 1, count);
    UpdateMuonMomentum(kMuon, nullptr, none.data() + 1, towards.data() + 1, count);
    EXPECT_EQ(none, buffer);
    EXPECT_EQ(towards, direction);
  }
}

TEST_P(UpdateKernelTest, AveragesOfWeights) {
  for (const int64_t count : Counts()) {
    const Floats weight = DrawElements(count, 1), before = DrawElements(count, 2);
    Floats got = before;
    UpdateAverage(0.3f, weight.data() + 1, got.data() + 1, count);
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) {
      const double change = 0.3f * (double{weight[i]} - before[i]);
      ASSERT_NEAR(got[i], before[i] + change, kEpsilon * (std::abs(before[i]) + 2 * std::abs(change)));
    }
    EXPECT_EQ(got[0], before[0]);
  }
}

// In double; a zero adds nothing wherever it stands, and a number that is not finite is found.
TEST_P(UpdateKernelTest, SumsOfSquares) {
  for (const int64_t count : Counts()) {
    Floats values = DrawElements(count, 1);
    double want = 0;
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) want += double{values[i]} * values[i];
    const double got = SumOfSquares(values.data() + 1, count);
    EXPECT_NEAR(got, want, 1e-13 * want) << count;
    Floats longer(kSquaresPeriod, 0.0f);
    longer.insert(longer.end(), values.begin() + 1, values.end());
    longer.resize(longer.size() + kSquaresPeriod);
    longer.insert(longer.begin(), kSquaresPeriod, 0.0f);
    Floats shorter(longer.begin() + kSquaresPeriod, longer.end());
    EXPECT_EQ(SumOfSquares(longer.data(), std::ssize(longer)), SumOfSquares(shorter.data(), std::ssize(shorter)));
    if (count == 0) continue;
    values[static_cast<size_t>(count)] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(std::isfinite(SumOfSquares(values.data() + 1, count)));
  }
}

constexpr AdadeltaUpdate kAdadelta{.rho = 0.9f,
                                   .one_minus_rho = 0.1f,
                                   .gradient_scale = kScale,
                                   .decay = kDecay,
                                   .learning_rate = 0.5f,
                                   .epsilon = 1e-6f};
void RunAdadelta(const float* gradient, float* parameter, float* first, float* second, int64_t count) {
  UpdateAdadelta(kAdadelta, gradient, parameter, first, second, count);
}

TEST_P(UpdateKernelTest, AdadeltaIsItsFormula) {
  for (const int64_t count : Counts()) {
    const PlainState before(count, /*positive_first=*/true);
    PlainState got = before;
    got.Run(RunAdadelta, count);
    for (size_t i = 1; i <= static_cast<size_t>(count); ++i) {
      const double w = before.parameter[i];
      const Decayed g(kScale, before.gradient[i], kDecay, before.parameter[i]);
      const MeanSquare square(kAdadelta.rho, before.first[i], kAdadelta.one_minus_rho, g.value, g.rounding);
      ASSERT_NEAR(got.first[i], square.value, square.rounding);
      // From here on of the mean square as it was rounded.
      const double ratio = ref::AdadeltaDelta(kAdadelta, 1, got.first[i], before.second[i]);
      const double delta = ref::AdadeltaDelta(kAdadelta, g.value, got.first[i], before.second[i]);
      const double rounding = ratio * g.rounding + 6 * kEpsilon * std::abs(delta);
      const MeanSquare deltas(kAdadelta.rho, before.second[i], kAdadelta.one_minus_rho, delta, rounding);
      ASSERT_NEAR(got.second[i], deltas.value, deltas.rounding);
      const double step = double{kAdadelta.learning_rate} * delta;
      ASSERT_NEAR(got.parameter[i], w - step,
                  double{kAdadelta.learning_rate} * rounding + 2 * kEpsilon * (std::abs(step) + std::abs(w)))
          << count << " " << i;
    }
    EXPECT_EQ(got.parameter[0], before.parameter[0]);
  }
}

TEST_P(UpdateKernelTest, AdadeltaTakesNoGradientAsZeros) {
  for (const int64_t count : Counts()) {
    PlainState zeros(count, /*positive_first=*/true);
    std::fill(zeros.gradient.begin(), zeros.gradient.end(), 0.0f);
    PlainState none = zeros;
    zeros.Run(RunAdadelta, count);
    none.Run(RunAdadelta, count, /*no_gradient=*/true);
    EXPECT_EQ(none.parameter, zeros.parameter);
    EXPECT_EQ(none.first, zeros.first);
    EXPECT_EQ(none.second, zeros.second);
  }
}

}  // namespace
}  // namespace lshformer::testing
