#include "ops/gather_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "ops/op_checks.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using testing::ExpectGradientsOf;
using testing::ExpectSameAsReference;
using testing::ExpectSameForAllThreads;
using ::testing::HasSubstr;
using testing::Normal;
using torch::Tensor;

constexpr int32_t kRows = 150;

// Some rows often, some never.
std::vector<int32_t> Drawn(int64_t count) {
  std::vector<int32_t> rows;
  PhiloxStream stream(StreamKey(3, 0, 0, 0, Purpose::kSynthetic));
  for (int64_t i = 0; i < count; ++i)
    rows.push_back(static_cast<int32_t>(stream.Below(2) == 0 ? stream.Below(5) : stream.Below(kRows)));
  return rows;
}

auto Op(const std::vector<int32_t>& rows) {
  return [&rows](const std::vector<Tensor>& in) { return GatherRows(in[0], rows); };
}
auto Reference(const std::vector<int32_t>& rows) {
  return [&rows](const std::vector<Tensor>& in) { return GatherRowsReference(in[0], rows); };
}

// Values are copies. A gradient is a sum of at most about 100 numbers: ε·√100 of it, where signs vary.
TEST(GatherRows, AgreesWithItsTwin) {
  for (const int64_t count : {0, 1, 63, 700}) {
    const std::vector<int32_t> rows = Drawn(count);
    const Tensor x = Normal({kRows, 37}, 3);
    ExpectSameAsReference(Op(rows), Reference(rows), {x}, 1e-6);
    const Tensor single = x.to(torch::kFloat32);
    EXPECT_TRUE(GatherRows(single, rows).equal(GatherRowsReference(single, rows)));
  }
}

TEST(GatherRows, AGradientIsTheSumInTheOrderOfItsRows) {
  const std::vector<int32_t> rows = Drawn(700);
  const auto got = testing::ResultAndGradients(Op(rows), {Normal({kRows, 9}, 5)});
  const Tensor g = Normal({700, 9}, 97).to(torch::kFloat32);
  Tensor want = torch::zeros({kRows, 9});
  for (size_t i = 0; i < rows.size(); ++i) want[rows[i]].add_(g[static_cast<int64_t>(i)]);
  EXPECT_TRUE(got[1].equal(want));
}

TEST(GatherRows, ReferenceHasTheGradientsOfFiniteDifferences) {
  const std::vector<int32_t> rows{2, 0, 2, 2, 1};
  ExpectGradientsOf(Reference(rows), {Normal({4, 3}, 7)});
}

TEST(GatherRows, ThreadsChangeNothing) {
  const std::vector<int32_t> rows = Drawn(700);
  ExpectSameForAllThreads(Op(rows), {Normal({kRows, 37}, 9)}, 2);
}

TEST(GatherRows, RefusesRowsThatAreNotThere) {
  EXPECT_THAT(ErrorOf([] { GatherRows(torch::zeros({3, 2}), {0, 3}); }), HasSubstr("row 3 of 3"));
  EXPECT_THAT(ErrorOf([] { GatherRows(torch::zeros({3, 2}), {-1}); }), HasSubstr("row -1 of 3"));
}

}  // namespace
}  // namespace lshformer
