#include "ops/rotary.h"

#include <gtest/gtest.h>

#include <thread>

#include "ops/op_checks.h"
#include "util/errors.h"

namespace lshformer::testing {
namespace {

constexpr Rotary kPlain{.theta = 100};
constexpr Rotary kDynamic{.theta = 100, .scaling = RotaryScaling::kDynamic, .factor = 4, .original = 9};

RotaryOptions Options(const Rotary& rotary, std::vector<int32_t> borders, int turned = 2) {
  auto sequences = std::make_shared<PackedSequences>();
  sequences->ids.resize(borders.size() - 1);
  sequences->cu_seqlens = std::move(borders);
  return {std::make_shared<const RotaryTable>(rotary, /*head_dim=*/6), sequences, /*heads=*/3, turned};
}

TEST(RotaryOp, AgreesWithItsTwin) {
  for (const Rotary& rotary : {kPlain, kDynamic})
    for (const int turned : {1, 2}) {
      const RotaryOptions options = Options(rotary, {0, 5, 5, 17, 18, 40}, turned);
      const TensorFunction op = [=](const auto& in) { return Rotated(in[0], options); };
      const TensorFunction reference = [=](const auto& in) { return RotatedReference(in[0], options); };
      ExpectSameAsReference(op, reference, {Normal({40, (turned + 1) * 18}, 1)});
      ExpectGradientsOf(reference, {Normal({40, (turned + 1) * 18}, 2)});
    }
}

// The value slice stays as it is, and without gradients the rest turns where it lies.
TEST(RotaryOp, TurnsInPlaceWithoutGradients) {
  const RotaryOptions options = Options(kPlain, {0, 30});
  const torch::Tensor before = Normal({30, 54}, 3).to(torch::kFloat32);
  const torch::Tensor want = Rotated(before.clone(), options);
  const torch::NoGradGuard no_grad;
  torch::Tensor qkv = before.clone();
  const void* memory = qkv.data_ptr();
  const torch::Tensor got = Rotated(std::move(qkv), options);
  EXPECT_EQ(got.data_ptr(), memory);
  EXPECT_TRUE(got.equal(want));
  EXPECT_TRUE(got.slice(1, 36).equal(before.slice(1, 36)));
  EXPECT_FALSE(got.slice(1, 0, 36).equal(before.slice(1, 0, 36)));
  EXPECT_TRUE(Rotated(before.clone(), options, torch::kBFloat16).equal(want.to(torch::kBFloat16)));
}

// A sequence turns as it does alone, whatever stands beside it, also where each length has frequencies of its own.
TEST(RotaryOp, ASequenceIsItsOwn) {
  for (const Rotary& rotary : {kPlain, kDynamic}) {
    const std::vector<int32_t> borders{0, 4, 25, 34, 64};
    const torch::Tensor all = Normal({64, 54}, 4).to(torch::kFloat32);
    const torch::Tensor got = Rotated(all, Options(rotary, borders));
    for (size_t b = 0; b + 1 < borders.size(); ++b) {
      const torch::Tensor own = all.slice(0, borders[b], borders[b + 1]).clone();
      EXPECT_TRUE(Rotated(own, Options(rotary, {0, borders[b + 1] - borders[b]}))
                      .equal(got.slice(0, borders[b], borders[b + 1])))
          << "sequence " << b;
    }
  }
}

// One table from several threads, growing while others read what they have.
TEST(RotaryOp, ATableGrowsUnderItsReaders) {
  const auto table = std::make_shared<const RotaryTable>(kPlain, 8);
  const auto small = table->Get(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&table, t] {
      for (int64_t length = 1 + t; length < 300; length += 7) EXPECT_GE(table->Get(length)->positions, length);
    });
  for (std::thread& thread : threads) thread.join();
  const auto large = table->Get(200);
  EXPECT_EQ(small->positions, 3);
  for (size_t i = 0; i < small->cos.size(); ++i) EXPECT_EQ(small->cos[i], large->cos[i]);
}

TEST(RotaryOp, SaysWhatItExpects) {
  const RotaryOptions options = Options(kPlain, {0, 30});
  EXPECT_EQ(ErrorOf([&] {
              Rotated(torch::zeros({30, 20}), options);
            }),
            "rotary positions: expected [tokens, slices · 3 heads · 6], got [30, 20]");
  EXPECT_EQ(ErrorOf([&] {
              Rotated(torch::zeros({31, 54}), options);
            }),
            "rotary positions: 31 tokens, but cu_seqlens ends at 30");
}

}  // namespace
}  // namespace lshformer::testing
