// The fast kernels against the oracle: every mode, ragged lengths around the tile size, odd widths, every instruction
// set.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/attention_case.h"
#include "kernels/every_isa.h"
#include "kernels/planning/plan_arrays.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

// Around one tile and two, with empty sequences between.
const std::vector<int> kRagged{0,
                               1,
                               kTileRows - 1,
                               kTileRows,
                               kTileRows + 1,
                               2 * kTileRows - 1,
                               2 * kTileRows,
                               2 * kTileRows + 1,
                               3 * kTileRows + 5,
                               0,
                               2,
                               300};

class EveryIsa : public IsaFixture {};
INSTANTIATE_TEST_SUITE_P(Attention, EveryIsa, EverySpecAndIsa(), NameOfSpecAndIsa);

TEST_P(EveryIsa, AgreesWithTheOracle) {
  for (const int head_dim : kSanitized ? std::vector{33} : std::vector{16, 33}) {
    SCOPED_TRACE(head_dim);
    const AttentionCase c = WithOperands(RandomCase(spec(), kRagged, 2, head_dim));
    ExpectAgrees(c, RunKernels(c));
  }
}

TEST_P(EveryIsa, AgreesAtEveryHeadDim) {
  for (const int head_dim :
       kSanitized ? std::vector{1, 17, 255} : std::vector{1, 7, 16, 17, 33, 64, 100, 128, 255, 256}) {
    SCOPED_TRACE(head_dim);
    const AttentionCase c = WithOperands(RandomCase(spec(), {5, kTileRows + 3, 1}, 1, head_dim, 2));
    ExpectAgrees(c, RunKernels(c));
  }
}

TEST_P(EveryIsa, DropoutDropsTheSamePairsAsTheOracle) {
  AttentionCase c = WithOperands(RandomCase(spec(), {1, 40, kTileRows + 7}, 2, 24, 3));
  c.dropout = 0.3f;
  ExpectAgrees(c, RunKernels(c));
}

}  // namespace
}  // namespace lshformer::testing
