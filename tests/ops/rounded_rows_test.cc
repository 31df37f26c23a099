// A linear map hands attention rows in bfloat16 where attention rounds them to that, and on AMX tiles attention hands
// the map behind it such rows too: the same bits as by way of float32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/parallel.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/sequences.h"
#include "ops/threads.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Sequences;
using torch::Tensor;

class RoundedRows : public ::testing::Test {
 protected:
  void SetUp() override { UseAmxModel(true); }
  void TearDown() override {
    UseAmxModel(false);
    SetAllThreads(HardwareThreads());
  }
  const torch::NoGradGuard no_grad_;
};

Linear Map(int64_t in, int64_t out) { return Linear({torch::randn({out, in}) / 3}, {torch::randn({out})}); }

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && torch::equal(a.view(torch::kInt16), b.view(torch::kInt16));
}

// What a map reads and attention gathers in bfloat16 is what it would have rounded; x is the input of the whole.
struct Layer {
  std::shared_ptr<AttentionOptions> options;
  Linear before, after;

  Layer(const AttentionSpec& spec, std::vector<int32_t> cu_seqlens, int64_t hidden, int heads)
      : options(std::make_shared<AttentionOptions>()),
        before(Map(hidden, SlicesOf(spec) * hidden)),
        after(Map(hidden, hidden)) {
    options->spec = std::make_shared<const AttentionSpec>(spec);
    options->heads = heads;
    options->operands = Operands::kBFloat16;
    options->sequences = Sequences(std::move(cu_seqlens));
  }
  Tensor Attended(const Tensor& x, torch::ScalarType in, torch::ScalarType out) const {
    auto mine = std::make_shared<AttentionOptions>(*options);
    mine->out_type = out;
    return SelfAttention(before(x, Precision::kBFloat16, in), mine);
  }
  Tensor operator()(const Tensor& x, torch::ScalarType in, torch::ScalarType out) const {
    return after(Attended(x, in, out), Precision::kBFloat16);
  }
};

std::vector<AttentionSpec> SparseSpecs() {
  std::vector<AttentionSpec> specs;
  for (const Pairs pairs : {Pairs::kFull, Pairs::kReference, Pairs::kSorted})
    for (const Fill fill : {Fill::kZero, Fill::kMean, Fill::kNone})
      specs.push_back({.kind = SimHashAttention{.hashes = 2, .fill = fill, .pairs = pairs}});
  specs.push_back({.kind = ReformerAttention{.rounds = 2, .chunk = 16}});
  specs.push_back({.kind = ClusteredAttention{.cluster = {8}, .open = {2}, .groups = 4}});
  for (AttentionSpec& spec : specs) spec.min_length = 0;
  return specs;
}

const std::vector<int32_t> kRagged{0, 3, 3, 73, 74, 204};  // an empty sequence, and one of one token

TEST_F(RoundedRows, OfTheOutputGiveTheSameBits) {
  for (const AttentionSpec& spec : SparseSpecs()) {
    SCOPED_TRACE(ToJson(spec).dump());
    const Layer layer(spec, kRagged, 40, 2);  // heads of 20 numbers
    const Tensor x = torch::randn({204, 40});
    const Tensor want = layer(x, torch::kFloat32, torch::kFloat32);
    EXPECT_EQ(layer.Attended(x, torch::kFloat32, torch::kBFloat16).scalar_type(), torch::kBFloat16);
    for (const int threads : {1, 3}) {
      SetAllThreads(threads);
      EXPECT_TRUE(SameBits(layer(x, torch::kFloat32, torch::kBFloat16), want)) << threads << " threads";
    }
  }
}

TEST_F(RoundedRows, OfQueriesKeysAndValuesGiveTheSameBits) {
  for (const int64_t hidden : {2, 40, 66, 128}) {
    SCOPED_TRACE(hidden);
    const Layer layer(AttentionSpec{}, kRagged, hidden, 2);
    const Tensor x = torch::randn({204, hidden});
    const Tensor want = layer(x, torch::kFloat32, torch::kFloat32);
    for (const int threads : {1, 3}) {
      SetAllThreads(threads);
      for (const torch::ScalarType out : {torch::kFloat32, torch::kBFloat16})
        EXPECT_TRUE(SameBits(layer(x, torch::kBFloat16, out), want)) << threads << " threads";
    }
  }
}

TEST_F(RoundedRows, MayHoldWhatIsNotFinite) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
    const Layer layer(AttentionSpec{}, kRagged, 40, 2);
    Tensor x = torch::randn({204, 40});
    x[30][7] = odd;
    const Tensor want = layer(x, torch::kFloat32, torch::kFloat32);
    const Tensor got = layer(x, torch::kBFloat16, torch::kBFloat16);
    EXPECT_TRUE(SameBits(got, want)) << odd;
    EXPECT_FALSE(torch::isfinite(got[30]).any().item<bool>());
    EXPECT_TRUE(torch::isfinite(got.slice(0, 74, 204)).all().item<bool>());
  }
}

// Many rows: the pieces that threads take.
TEST_F(RoundedRows, OfAMapAreThoseOfFloat32Rounded) {
  const Linear map = Map(70, 90);
  const Tensor x = torch::randn({1100, 70}), want = map(x, Precision::kBFloat16);
  for (const int threads : {1, 3}) {
    SetAllThreads(threads);
    EXPECT_TRUE(SameBits(map(x, Precision::kBFloat16, torch::kBFloat16), want.to(torch::kBFloat16)));
    EXPECT_TRUE(SameBits(map(x.to(torch::kBFloat16), Precision::kBFloat16), want));
  }
}

TEST_F(RoundedRows, AreForInferenceInBFloat16) {
  EXPECT_EQ(RowType(Precision::kBFloat16), torch::kBFloat16);
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8})
    EXPECT_EQ(RowType(precision), torch::kFloat32);
  const Linear map = Map(40, 120);
  const Tensor x = torch::randn({204, 40}), rounded = x.to(torch::kBFloat16);
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8})
    EXPECT_THAT(ErrorOf([&] { map(rounded, precision); }), HasSubstr("expected float32"));
  EXPECT_THAT(ErrorOf([&] { map(rounded, Precision::kBFloat16, torch::kBFloat16); }), HasSubstr("results in BFloat16"));
  EXPECT_THAT(ErrorOf([&] { map(x, Precision::kBFloat16, torch::kFloat64); }), HasSubstr("results in Double"));
  EXPECT_EQ(OperandType(Operands::kBFloat16), torch::kBFloat16);
  EXPECT_EQ(OperandType(Operands::kFloat32), torch::kFloat32);
  const torch::AutoGradMode gradients(true);
  EXPECT_EQ(RowType(Precision::kBFloat16), torch::kFloat32);
  EXPECT_EQ(OperandType(Operands::kBFloat16), torch::kFloat32);
  EXPECT_THAT(ErrorOf([&] { map(rounded, Precision::kBFloat16); }), HasSubstr("expected float32"));
  EXPECT_THAT(ErrorOf([&] { map(x, Precision::kBFloat16, torch::kBFloat16); }), HasSubstr("results in BFloat16"));
  const Layer layer(AttentionSpec{}, kRagged, 40, 2);
  EXPECT_THAT(ErrorOf([&] { layer(x, torch::kFloat32, torch::kBFloat16); }), HasSubstr("attention: results in"));
}

TEST_F(RoundedRows, AreNotReadWhereMoreThanProductsReadThem) {
  for (const AttentionSpec& spec : SparseSpecs()) {
    const Layer layer(spec, kRagged, 40, 2);
    EXPECT_THAT(ErrorOf([&] {
                  layer(torch::randn({204, 40}), torch::kBFloat16, torch::kFloat32);
                }),
                HasSubstr("attention: expected float32, got BFloat16"));
  }
}

// Of maps in any precision, with AVX512_BF16 or tiles.
TEST(RoundedRowsOfThisMachine, GoFromMapsToAttention) {
  if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no instructions for bfloat16";
  const torch::NoGradGuard no_grad;
  const Layer layer(AttentionSpec{}, kRagged, 40, 2);
  const Tensor x = torch::randn({204, 40});
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    SCOPED_TRACE(Name(precision));
    const Tensor rows = layer.before(x, precision), rounded = layer.before(x, precision, torch::kBFloat16);
    EXPECT_TRUE(SameBits(rounded, rows.to(torch::kBFloat16)));
    EXPECT_TRUE(SameBits(SelfAttention(rounded, layer.options), SelfAttention(rows, layer.options)));
  }
}

TEST(RoundedRowsWithoutAmx, GoToNoMap) {
  if (ActiveAmxTiles() != AmxTiles::kNone) GTEST_SKIP() << "this machine has tiles";
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(RowType(Precision::kBFloat16), torch::kFloat32);
}

}  // namespace
}  // namespace lshformer
