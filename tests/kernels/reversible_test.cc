// The streams of reversible layers: on their grid, and taken back bit for bit.
#include "kernels/reversible.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/ref/reversible.h"
#include "util/numbers.h"

namespace lshformer::testing {
namespace {

constexpr int64_t kStreamed = 70001;  // three pieces of work

// Over many magnitudes, far below the grid's step too.
std::vector<float> Streamed(uint64_t seed) {
  std::vector<float> x = Random(kStreamed, seed);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= std::exp2(static_cast<float>(i % 60) - 45);
  return x;
}

TEST(ReversibleStreams, HoldMultiplesOfTheGrid) {
  const std::vector<float> x = Streamed(1), added = Streamed(2);
  std::vector<double> stream(x.size()), other(x.size());
  std::vector<float> back(x.size()), mean(x.size());
  ToStream(x.data(), kStreamed, stream.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(stream[i], ref::OnGrid(x[i])) << x[i];
  other = stream;
  AddToStream(added.data(), kStreamed, stream.data());
  StreamToFloat(stream.data(), kStreamed, back.data());
  MeanOfStreams(stream.data(), other.data(), kStreamed, mean.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(stream[i], ref::OnGrid(x[i]) + ref::OnGrid(added[i]));
    ASSERT_EQ(back[i], static_cast<float>(stream[i]));
    ASSERT_EQ(mean[i], static_cast<float>((stream[i] + other[i]) / 2));
  }
}

// Many layers there and back, on any number of threads.
TEST(ReversibleStreams, ADifferenceTakesBackWhatASumAdded) {
  const std::vector<float> x = Streamed(3);
  std::vector<double> start(x.size());
  ToStream(x.data(), kStreamed, start.data());
  std::vector<double> stream = start;
  for (const uint64_t layer : {4, 5, 6, 7}) {
    SetThreads(static_cast<int>(layer) - 3);
    AddToStream(Streamed(layer).data(), kStreamed, stream.data());
  }
  EXPECT_NE(stream, start);
  for (const uint64_t layer : {7, 5, 4, 6}) TakeFromStream(Streamed(layer).data(), kStreamed, stream.data());
  SetThreads(HardwareThreads());
  EXPECT_EQ(stream, start);
}

// Beyond the grid's range numbers stay multiples of its step, and are nearly what they were.
TEST(ReversibleStreams, LargeNumbersStay) {
  const std::vector<float> x{600000.25f, -600000.25f, 3e6f, -1e12f, 1e30f};
  std::vector<double> stream(x.size());
  ToStream(x.data(), std::ssize(x), stream.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(stream[i], x[i], 0x1p-52 * std::abs(x[i])) << x[i];
}

}  // namespace
}  // namespace lshformer::testing
