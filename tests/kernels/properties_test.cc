// What holds of every batch, whatever its shape: batch-mates and padding change no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "util/property.h"

namespace lshformer::testing {
namespace {

// Up to six lengths: around one tile and two, empty sequences, and some in between, all from the first case on.
rc::Gen<std::vector<int>> Lengths() {
  const auto length = rc::gen::oneOf(rc::gen::element(0, 1, 63, 64, 65, 127, 128, 129), rc::gen::inRange(0, 200));
  return rc::gen::nonEmpty(
      rc::gen::scale(0.06, rc::gen::container<std::vector<int>>(rc::gen::resize(rc::kNominalSize, length))));
}

AttentionCase DrawCase() {
  const auto lengths = *Lengths();
  AttentionSpec spec = *rc::gen::elementOf(AllSpecs());
  const int table_size = *rc::gen::element(1, 2, 7, 1000);
  if (Is<SimHashAttention>(spec)) As<SimHashAttention>(spec).table_size = table_size;
  spec.min_length = IsSparse(spec) ? *rc::gen::element(0, 64) : 0;
  const int heads = *rc::gen::inRange(1, 4), head_dim = *rc::gen::element(1, 5, 16, 33);
  AttentionCase c = RandomCase(spec, lengths, heads, head_dim, *rc::gen::inRange(0, 1000));
  c.dropout = *rc::gen::element(0.0f, 0.2f);
  return c;
}

// The rows of the sequence that begins at `begin` out of a whole batch's.
std::vector<float> Cut(const std::vector<float>& whole, int64_t begin, size_t count, int64_t width) {
  if (whole.empty()) return {};  // shared keys have no gradient
  return {whole.begin() + begin * width, whole.begin() + begin * width + static_cast<int64_t>(count)};
}

TEST(AttentionProperty, ASequenceDoesNotSeeItsBatchMates) {
  const bool holds = Holds("alone or in a batch", 60, [] {
    const AttentionCase c = DrawCase();
    SetThreads(*rc::gen::inRange(1, 4));
    const AttentionResult all = RunKernels(c);
    SetThreads(*rc::gen::inRange(1, 4));
    for (size_t b = 0; b + 1 < c.cu_seqlens.size(); ++b) {
      const AttentionResult alone = RunKernels(Alone(c, b));
      const int64_t begin = c.cu_seqlens[b], row = int64_t{c.heads} * c.head_dim;
      const size_t count = alone.out.size();
      RC_ASSERT(Cut(all.out, begin, count, row) == alone.out);
      RC_ASSERT(Cut(all.lse, begin, alone.lse.size(), c.heads) == alone.lse);
      RC_ASSERT(Cut(all.grad_query, begin, count, row) == alone.grad_query);
      RC_ASSERT(Cut(all.grad_key, begin, count, row) == alone.grad_key);
      RC_ASSERT(Cut(all.grad_value, begin, count, row) == alone.grad_value);
    }
  });
  SetThreads(HardwareThreads());
  EXPECT_TRUE(holds);
}

// Rows, heads and the start of a tensor may be padded: what lies between is NaN here, is not read and stays.
TEST(AttentionProperty, PaddingDoesNotMatter) {
  EXPECT_TRUE(Holds("padding", 40, [] {
    const AttentionCase c = DrawCase();
    const AttentionResult want = RunKernels(c, false);
    const int64_t tokens = c.tokens(), head_stride = c.head_dim + *rc::gen::inRange(0, 20),
                  token_stride = head_stride * c.heads + *rc::gen::inRange(0, 20), shift = *rc::gen::inRange(0, 16);
    const auto spread = [&](const std::vector<float>& x) {
      std::vector<float> wide(shift + tokens * token_stride, NAN);
      for (int64_t i = 0; i < tokens * c.heads; ++i) {
        std::copy_n(x.data() + i * c.head_dim, c.head_dim,
                    wide.data() + shift + i / c.heads * token_stride + i % c.heads * head_stride);
      }
      return wide;
    };
    const std::vector<float> query = spread(c.query), key = spread(c.key), value = spread(c.value);
    std::vector<float> out(query.size(), NAN), lse(tokens * c.heads);
    const auto in = [&](const std::vector<float>& x) {
      return HeadTensor<const float>{x.data() + shift, token_stride, head_stride};
    };
    const PlannedAttention planned = PlanOf(c);
    RunAttentionForward({c.shape(),
                         in(query),
                         in(key),
                         in(value),
                         {out.data() + shift, token_stride, head_stride},
                         lse.data(),
                         c.Scale(),
                         planned.plan.get(),
                         planned.centroids.get(),
                         c.Dropout()});
    const std::vector<float> expected = spread(want.out);
    const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    RC_ASSERT(std::equal(out.begin(), out.end(), expected.begin(), same));
    RC_ASSERT(lse == want.lse);
  }));
}

}  // namespace
}  // namespace lshformer::testing
