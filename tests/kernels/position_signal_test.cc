#include "kernels/position_signal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/position_signal.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

// Angles are rounded once or twice in double: their error is far below half of a float's last bit.
TEST(PositionSignalKernel, IsTheFormulaRounded) {
  constexpr int64_t kLength = 130;  // three pieces of work
  for (const int64_t width : {1, 2, 3, 4, 17, 128}) {
    std::vector<float> alone(kLength * width, kNotANumber), signal = alone;
    SetThreads(1);
    WritePositionSignal(kLength, width, alone.data());
    SetThreads(3);
    WritePositionSignal(kLength, width, signal.data());
    SetThreads(HardwareThreads());
    EXPECT_EQ(signal, alone);
    for (int64_t i = 0; i < kLength * width; ++i)
      ASSERT_NEAR(signal[i], ref::PositionSignal(i / width, i % width, width), 1.01 * kFloatEps) << width << ", " << i;
  }
  WritePositionSignal(0, 4, nullptr);  // no positions, no work
}

}  // namespace
}  // namespace lshformer::testing
