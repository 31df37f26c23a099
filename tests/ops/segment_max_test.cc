#include "ops/segment_max.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::Borders;
using testing::ErrorOf;
using testing::ExpectGradientsOf;
using testing::ExpectSameForAllThreads;
using ::testing::HasSubstr;
using testing::Normal;
using testing::ResultAndGradients;
using torch::Tensor;

const std::vector<int32_t> kSegments{1, 2, 12, 3, 1, 70, 5};

auto Op(const std::vector<int32_t>& lengths) {
  return [&lengths](const std::vector<Tensor>& in) { return SegmentMax(in[0], Borders(lengths)); };
}
auto Reference(const std::vector<int32_t>& lengths) {
  return [&lengths](const std::vector<Tensor>& in) { return SegmentMaxReference(in[0], Borders(lengths)); };
}

// Nothing is rounded: the bits of the oracle, of the gradient too. Small integers, so that many are alike.
TEST(SegmentMax, HasTheBitsOfItsTwin) {
  for (const int64_t columns : {1, 35})
    for (const bool ties : {false, true}) {
      Tensor x = Normal({Borders(kSegments).back(), columns}, 3);
      if (ties) x = torch::relu(x.round());
      const auto got = ResultAndGradients(Op(kSegments), {x}), want = ResultAndGradients(Reference(kSegments), {x});
      EXPECT_TRUE(got[0].equal(want[0])) << columns << " columns, ties " << ties;
      EXPECT_TRUE(got[1].equal(want[1])) << columns << " columns, ties " << ties;
    }
}

TEST(SegmentMax, TheFirstOfEqualsHasTheGradient) {
  const Tensor x = torch::tensor({{1.0f, 5.0f}, {3.0f, 5.0f}, {3.0f, 4.0f}, {-2.0f, -1.0f}});
  for (const auto& op : {SegmentMax, SegmentMaxReference}) {
    const Tensor leaf = x.clone().requires_grad_(true);
    const Tensor y = op(leaf, {0, 3, 4});
    EXPECT_TRUE(y.equal(torch::tensor({{3.0f, 5.0f}, {-2.0f, -1.0f}})));
    y.sum().backward();
    EXPECT_TRUE(leaf.grad().equal(torch::tensor({{0.0f, 1.0f}, {1.0f, 0.0f}, {0.0f, 0.0f}, {1.0f, 1.0f}})));
  }
}

TEST(SegmentMax, ReferenceHasTheGradientsOfFiniteDifferences) {
  ExpectGradientsOf(Reference(kSegments), {Normal({Borders(kSegments).back(), 3}, 5)});
}

TEST(SegmentMax, ThreadsChangeNothing) {
  const std::vector<int32_t> segments(300, 4);
  ExpectSameForAllThreads(Op(segments), {Normal({1200, 20}, 7)}, 2);
}

TEST(SegmentMax, RefusesWhatDoesNotFit) {
  EXPECT_THAT(ErrorOf([] { SegmentMax(torch::zeros({3, 2}), {0, 2, 2, 3}); }), HasSubstr("segment 1 has no row"));
  EXPECT_THAT(ErrorOf([] { SegmentMax(torch::zeros({3, 2}), {0, 2}); }), HasSubstr("the segments have 2 rows"));
}

}  // namespace
}  // namespace lshformer
