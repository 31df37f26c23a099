// AMX tiles: the software model against hand-computed cases and plain sums, the instructions against the model.
#include "kernels/cpu/amx/amx_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/philox.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kSums = kAmxTileSide * kAmxTileSide;

struct TileBytes {
  alignas(64) uint8_t bytes[kAmxTileSide * kAmxTileRowBytes] = {};

  uint32_t Word(int row, int column) const {
    uint32_t word;
    std::memcpy(&word, bytes + row * kAmxTileRowBytes + 4 * column, sizeof(word));
    return word;
  }
  float Sum(int row, int column) const { return std::bit_cast<float>(Word(row, column)); }
  void SetWord(int row, int column, uint32_t word) {
    std::memcpy(bytes + row * kAmxTileRowBytes + 4 * column, &word, sizeof(word));
  }
  void SetSum(int row, int column, float sum) { SetWord(row, column, std::bit_cast<uint32_t>(sum)); }
};

uint16_t Upper(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }
uint32_t Pair(float even, float odd) { return Upper(even) | static_cast<uint32_t>(Upper(odd)) << 16; }

// Tiles 0 (C), 1 (A) and 2 (B) of a product of rows × columns sums over `words` words.
AmxTileShapes ProductShapes(int rows, int columns, int words) {
  AmxTileShapes shapes;
  const auto set = [&](int tile, int r, int bytes) {
    shapes.rows[tile] = static_cast<uint8_t>(r);
    shapes.row_bytes[tile] = static_cast<uint16_t>(bytes);
  };
  set(0, rows, 4 * columns);
  set(1, rows, 4 * words);
  set(2, words, 4 * columns);
  return shapes;
}

template <class M>
TileBytes MultiplyBFloat16(const AmxTileShapes& shapes, const TileBytes& a, const TileBytes& b, TileBytes c) {
  M::Configure(shapes);
  M::template Load<0>(c.bytes, kAmxTileRowBytes);
  M::template Load<1>(a.bytes, kAmxTileRowBytes);
  M::template Load<2>(b.bytes, kAmxTileRowBytes);
  M::template MultiplyBFloat16<0, 1, 2>();
  M::template Store<0>(c.bytes, kAmxTileRowBytes);
  M::Release();
  return c;
}
template <class M, Signs kSigns>
TileBytes MultiplyInt8(const AmxTileShapes& shapes, const TileBytes& a, const TileBytes& b, TileBytes c) {
  M::Configure(shapes);
  M::template Load<0>(c.bytes, kAmxTileRowBytes);
  M::template Load<1>(a.bytes, kAmxTileRowBytes);
  M::template Load<2>(b.bytes, kAmxTileRowBytes);
  M::template MultiplyInt8<0, 1, 2, kSigns>();
  M::template Store<0>(c.bytes, kAmxTileRowBytes);
  M::Release();
  return c;
}

// c + Σ_k even_k + Σ_k odd_k of one element, by the model; pairs of (a, b).
float OneSum(float c, const std::vector<std::pair<float, float>>& even,
             const std::vector<std::pair<float, float>>& odd = {}) {
  TileBytes a, b, sums;
  for (size_t k = 0; k < even.size(); ++k) {
    const auto second = k < odd.size() ? odd[k] : std::pair<float, float>{0, 0};
    a.SetWord(0, static_cast<int>(k), Pair(even[k].first, second.first));
    b.SetWord(static_cast<int>(k), 0, Pair(even[k].second, second.second));
  }
  sums.SetSum(0, 0, c);
  return MultiplyBFloat16<AmxModel>(ProductShapes(1, 1, static_cast<int>(even.size())), a, b, sums).Sum(0, 0);
}

TEST(AmxModelArithmetic, SumsEvenAndOddMembersApart) {
  EXPECT_EQ(OneSum(10, {{2, 3}}, {{4, 5}}), 36);
  // Alone 1 is lost beside 2²⁵; with its like it is not: (1 + 1 + 1 + 1) + 2²⁵.
  const std::vector<std::pair<float, float>> ones(4, {1, 1});
  EXPECT_EQ(OneSum(0, ones, {{0x1p25f, 1}}), 0x1p25f + 4);
  EXPECT_EQ(OneSum(0, {{0x1p25f, 1}, {1, 1}, {1, 1}, {1, 1}}), 0x1p25f);
  // C comes last: 2²⁵ + (1 + 1 + 1 + 1).
  EXPECT_EQ(OneSum(0x1p25f, ones), 0x1p25f + 4);
}

TEST(AmxModelArithmetic, FusesAndRoundsToNearestEven) {
  // (1 + 2⁻⁷)² = 1 + 2⁻⁶ + 2⁻¹⁴, to which 2⁻²⁴ is half a last bit: it goes to the even neighbour, below.
  EXPECT_EQ(OneSum(0, {{0x1p-12f, 0x1p-12f}, {1.0078125f, 1.0078125f}}), 1 + 0x1p-6f + 0x1p-14f);
  EXPECT_EQ(OneSum(0, {{0x1.8p-12f, 0x1p-12f}, {1.0078125f, 1.0078125f}}), 1 + 0x1p-6f + 0x1p-14f + 0x1p-23f);
  // The product is not rounded before it is added: 1 − (1 + 2⁻⁷)² · 2⁰ …
  EXPECT_EQ(OneSum(0, {{-1, 1}, {1.0078125f, 1.0078125f}}), 0x1p-6f + 0x1p-14f);
  EXPECT_EQ(OneSum(0, {{3.3895314e38f, 1}, {3.3895314e38f, 1}}), kInfinity);
  EXPECT_EQ(OneSum(-kInfinity, {{1, 1}}), -kInfinity);
  EXPECT_TRUE(std::isnan(OneSum(0, {{kInfinity, 0}})));
  EXPECT_TRUE(std::isnan(OneSum(-kInfinity, {{kInfinity, 1}})));
  EXPECT_TRUE(std::isnan(OneSum(0, {{1, 1}}, {{NAN, 1}})));
}

TEST(AmxModelArithmetic, TakesSmallNumbersForZero) {
  const float least = 0x1p-126f, small = std::bit_cast<float>(0x00400000u);
  EXPECT_EQ(OneSum(0, {{small, 0x1p100f}}), 0);             // a factor
  EXPECT_EQ(OneSum(small, {{least, 1}}), least);            // a sum that goes in
  EXPECT_EQ(OneSum(0, {{least, 0.5f}, {least, 0.5f}}), 0);  // each that comes out
  EXPECT_TRUE(std::signbit(OneSum(-0.0f, {{-0x1p-100f, 0x1p-100f}}, {{-0x1p-100f, 0x1p-100f}})));
  // Whether a result is too small is judged after rounding to 24 bits with an exponent of any size.
  EXPECT_EQ(OneSum(0, {{least, 1}, {-0x1p-75f, 0x1p-75f}}), 0);      // 2⁻¹²⁶ − 2⁻¹⁵⁰ has 24 bits
  EXPECT_EQ(OneSum(0, {{least, 1}, {-0x1p-75f, 0x1p-76f}}), least);  // 2⁻¹²⁶ − 2⁻¹⁵¹ rounds up
  EXPECT_EQ(FusedWithoutSubnormals(-0x1p-75f, 0x1p-75f, least), 0);
  EXPECT_EQ(FusedWithoutSubnormals(-0x1p-75f, 0x1p-76f, least), least);
}

// Any bits: as many numbers of every kind as there are exponents, and some that are near one another.
float AnyNumber(PhiloxStream& stream) {
  const auto exponent = [&stream](uint64_t from, uint64_t count) {
    return static_cast<uint32_t>(from + stream.Below(count)) << 23;
  };
  const auto bits = static_cast<uint32_t>(stream.Below(1u << 16)) << 16;
  const auto kind = stream.Below(8);
  if (kind == 0) return std::bit_cast<float>(bits);
  if (kind == 1) return std::bit_cast<float>((bits & 0x807F0000) | exponent(0, 2));   // around 2⁻¹²⁶
  if (kind == 2) return std::bit_cast<float>((bits & 0x807F0000) | exponent(62, 3));  // squares so
  if (kind == 3 && stream.Below(16) == 0) return std::bit_cast<float>(bits | 0x7F800000);
  return std::bit_cast<float>((bits & 0x807F0000) | exponent(120, 15));
}
TileBytes RandomPairs(PhiloxStream& stream) {
  TileBytes tile;
  for (int i = 0; i < kSums; ++i)
    tile.SetWord(i / kAmxTileSide, i % kAmxTileSide, Pair(AnyNumber(stream), AnyNumber(stream)));
  return tile;
}
TileBytes RandomSums(PhiloxStream& stream) {
  TileBytes tile;
  for (int i = 0; i < kSums; ++i) {
    const uint32_t lower = static_cast<uint32_t>(stream.Below(1u << 16));
    tile.SetWord(i / kAmxTileSide, i % kAmxTileSide, std::bit_cast<uint32_t>(AnyNumber(stream)) | lower);
  }
  return tile;
}
TileBytes RandomBytes(PhiloxStream& stream) {
  TileBytes tile;
  for (uint8_t& byte : tile.bytes) byte = static_cast<uint8_t>(stream.Below(256));
  return tile;
}

void ExpectSameSums(const TileBytes& got, const TileBytes& want) {
  for (int i = 0; i < kSums; ++i) {
    const float mine = got.Sum(i / kAmxTileSide, i % kAmxTileSide),
                other = want.Sum(i / kAmxTileSide, i % kAmxTileSide);
    if (std::isnan(mine) && std::isnan(other)) continue;
    ASSERT_EQ(got.Word(i / kAmxTileSide, i % kAmxTileSide), want.Word(i / kAmxTileSide, i % kAmxTileSide))
        << "sum " << i;
  }
}

// Calls visit(shapes, stream) for every shape of a product in turn and again, `count` times.
template <class Visit>
void ForShapes(int count, const Visit& visit) {
  PhiloxStream stream(StreamKey(1, 0, 0, 0, Purpose::kSynthetic));
  for (int i = 0; i < count; ++i) {
    const auto side = [&] { return static_cast<int>(1 + stream.Below(16)); };
    const int rows = side(), columns = side(), words = side();
    visit(ProductShapes(rows, columns, words), stream);
  }
}

// The model by the steps that it is defined by, in double and integers, for every shape.
TEST(AmxModelArithmetic, IsWhatItsStepsSay) {
  ForShapes(400, [](const AmxTileShapes& shapes, PhiloxStream& stream) {
    const TileBytes a = RandomPairs(stream), b = RandomPairs(stream), c = RandomSums(stream);
    TileBytes want = c;
    const auto number = [](uint32_t pair, bool odd) {
      return std::bit_cast<float>(odd ? pair & 0xFFFF0000 : pair << 16);
    };
    for (int m = 0; m < shapes.rows[0]; ++m) {
      for (int n = 0; n < shapes.row_bytes[0] / 4; ++n) {
        float sums[2] = {0, 0};
        for (int k = 0; k < shapes.rows[2]; ++k) {
          for (const bool odd : {false, true})
            sums[odd] = FusedWithoutSubnormals(number(a.Word(m, k), odd), number(b.Word(k, n), odd), sums[odd]);
        }
        want.SetSum(m, n, FusedWithoutSubnormals(1, FusedWithoutSubnormals(1, sums[0], sums[1]), c.Sum(m, n)));
      }
    }
    ExpectSameSums(MultiplyBFloat16<AmxModel>(shapes, a, b, c), want);
  });
}

TEST(AmxModelArithmetic, MultipliesEightBitsOfEverySign) {
  ForShapes(50, [](const AmxTileShapes& shapes, PhiloxStream& stream) {
    const TileBytes a = RandomBytes(stream), b = RandomBytes(stream), c = RandomBytes(stream);
    const auto expect = [&](const TileBytes& got, bool first_signed, bool second_signed) {
      TileBytes want = c;
      for (int m = 0; m < shapes.rows[0]; ++m) {
        for (int n = 0; n < shapes.row_bytes[0] / 4; ++n) {
          int64_t sum = c.Word(m, n);
          for (int k = 0; k < 4 * shapes.rows[2]; ++k) {
            const uint8_t left = a.bytes[m * kAmxTileRowBytes + k];
            const uint8_t right = b.bytes[k / 4 * kAmxTileRowBytes + 4 * n + k % 4];
            sum += (first_signed ? static_cast<int8_t>(left) : int64_t{left}) *
                   (second_signed ? static_cast<int8_t>(right) : int64_t{right});
          }
          want.SetWord(m, n, static_cast<uint32_t>(sum));
        }
      }
      EXPECT_EQ(std::memcmp(got.bytes, want.bytes, sizeof(want.bytes)), 0) << first_signed << second_signed;
    };
    expect(MultiplyInt8<AmxModel, Signs::kBoth>(shapes, a, b, c), true, true);
    expect(MultiplyInt8<AmxModel, Signs::kFirst>(shapes, a, b, c), true, false);
    expect(MultiplyInt8<AmxModel, Signs::kSecond>(shapes, a, b, c), false, true);
    expect(MultiplyInt8<AmxModel, Signs::kNone>(shapes, a, b, c), false, false);
  });
}

// Rounding upwards, and numbers below 2⁻¹²⁶ taken for 0: the thread's own affair.
TEST(AmxModelArithmetic, DoesNotAskHowTheThreadRounds) {
  ForShapes(20, [](const AmxTileShapes& shapes, PhiloxStream& stream) {
    const TileBytes a = RandomPairs(stream), b = RandomPairs(stream), c = RandomSums(stream);
    const TileBytes want = MultiplyBFloat16<AmxModel>(shapes, a, b, c);
    std::fesetround(FE_UPWARD);
    const TileBytes upwards = MultiplyBFloat16<AmxModel>(shapes, a, b, c);
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    ExpectSameSums(upwards, want);
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    const TileBytes flushed = MultiplyBFloat16<AmxModel>(shapes, a, b, c);
    _mm_setcsr(before);
    ExpectSameSums(flushed, want);
#endif
  });
}

TEST(AmxModelArithmetic, RefusesWhatTheInstructionsRefuse) {
  AmxModel::Release();
  TileBytes memory;
  EXPECT_THROW(AmxModel::Zero<0>(), std::logic_error);
  EXPECT_THROW((AmxModel::Load<3>(memory.bytes, kAmxTileRowBytes)), std::logic_error);
  EXPECT_THROW((AmxModel::MultiplyBFloat16<0, 1, 2>()), std::logic_error);
  AmxModel::Configure(ProductShapes(3, 4, 5));
  EXPECT_THROW(AmxModel::Zero<3>(), std::logic_error);
  EXPECT_NO_THROW((AmxModel::MultiplyBFloat16<0, 1, 2>()));
  EXPECT_THROW((AmxModel::MultiplyBFloat16<0, 2, 1>()), std::logic_error);
  EXPECT_THROW((AmxModel::MultiplyBFloat16<0, 0, 2>()), std::logic_error);
  AmxTileShapes wrong = ProductShapes(3, 4, 5);
  wrong.rows[1] = 17;
  EXPECT_THROW(AmxModel::Configure(wrong), std::logic_error);
  AmxModel::Release();
}

TEST(AmxModelArithmetic, LoadsAndStoresItsShapeAlone) {
  AmxTileShapes shapes;
  shapes.rows[5] = 3;
  shapes.row_bytes[5] = 12;
  AmxModel::Configure(shapes);
  TileBytes from, to;
  std::fill(std::begin(from.bytes), std::end(from.bytes), uint8_t{7});
  std::fill(std::begin(to.bytes), std::end(to.bytes), uint8_t{9});
  AmxModel::Load<5>(from.bytes, kAmxTileRowBytes);
  AmxModel::Store<5>(to.bytes, kAmxTileRowBytes);
  AmxModel::Release();
  for (int i = 0; i < kAmxTileSide * kAmxTileRowBytes; ++i)
    ASSERT_EQ(to.bytes[i], i / kAmxTileRowBytes < 3 && i % kAmxTileRowBytes < 12 ? 7 : 9) << i;
}

TEST(AmxAccess, FollowsFromTheProcessorAndTheKernel) {
  constexpr uint32_t kAll = 1u << 22 | 1u << 24 | 1u << 25;
  EXPECT_TRUE(AccessFrom(kAll, true, 0).granted);
  EXPECT_EQ(AccessFrom(kAll, true, 0).refusal, "");
  EXPECT_EQ(AccessFrom(0, false, 0).refusal, "the processor lacks amx_tile, amx_bf16, amx_int8, avx512_bf16");
  EXPECT_EQ(AccessFrom(1u << 24, true, 0).refusal, "the processor lacks amx_bf16, amx_int8");
  EXPECT_EQ(AccessFrom(kAll, false, 0).refusal, "the processor lacks avx512_bf16");
  EXPECT_THAT(AccessFrom(kAll, true, ENOSPC).refusal, ::testing::HasSubstr("signal stack"));
  EXPECT_THAT(AccessFrom(kAll, true, EINVAL).refusal, ::testing::HasSubstr("the kernel refuses"));
  EXPECT_FALSE(AccessFrom(kAll, true, EINVAL).granted);
}

TEST(InstructionSets, WhatRunsWasCompiled) {
  const std::vector<std::string> compiled = CompiledIsas();
  for (const std::string& isa : SupportedIsas()) EXPECT_THAT(compiled, ::testing::Contains(isa));
  EXPECT_THAT(compiled, ::testing::Not(::testing::Contains("ssse3"))) << "HWY_DISABLED_TARGETS";
}

// What was found out is what the instruction sets and the report of the build say.
TEST(AmxAccess, IsToldByTheInstructionSets) {
  const std::vector<std::string> isas = SupportedIsas();
  EXPECT_EQ(isas.front() == "amx", WhyNoAmx().empty());
  EXPECT_EQ(ActiveAmxTiles(), isas.front() == "amx" ? AmxTiles::kInstructions : AmxTiles::kNone);
  for (const std::string& isa : isas) {
    ForceIsa(isa);
    EXPECT_EQ(ActiveAmxTiles() == AmxTiles::kInstructions, isa == "amx");
    EXPECT_EQ(ActiveIsa(), isa);
  }
  ForceIsa("auto");
  UseAmxModel(true);
  EXPECT_EQ(ActiveAmxTiles(), AmxTiles::kModel);
  EXPECT_TRUE(Supports(Operands::kBFloat16));
  UseAmxModel(false);
}

#if defined(__x86_64__)
class AmxTileInstructions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!AskForAmx().granted) GTEST_SKIP() << AskForAmx().refusal;
  }
};

TEST_F(AmxTileInstructions, AreWhatTheModelSays) {
  ForShapes(kSanitized ? 10'000 : 1'000'000, [](const AmxTileShapes& shapes, PhiloxStream& stream) {
    const TileBytes a = RandomPairs(stream), b = RandomPairs(stream), c = RandomSums(stream);
    ExpectSameSums(MultiplyBFloat16<AmxInstructions>(shapes, a, b, c), MultiplyBFloat16<AmxModel>(shapes, a, b, c));
  });
  ForShapes(1000, [](const AmxTileShapes& shapes, PhiloxStream& stream) {
    const TileBytes a = RandomBytes(stream), b = RandomBytes(stream), c = RandomBytes(stream);
    const auto same = [](const TileBytes& x, const TileBytes& y) {
      EXPECT_EQ(std::memcmp(x.bytes, y.bytes, sizeof(x.bytes)), 0);
    };
    same(MultiplyInt8<AmxInstructions, Signs::kBoth>(shapes, a, b, c),
         MultiplyInt8<AmxModel, Signs::kBoth>(shapes, a, b, c));
    same(MultiplyInt8<AmxInstructions, Signs::kFirst>(shapes, a, b, c),
         MultiplyInt8<AmxModel, Signs::kFirst>(shapes, a, b, c));
    same(MultiplyInt8<AmxInstructions, Signs::kSecond>(shapes, a, b, c),
         MultiplyInt8<AmxModel, Signs::kSecond>(shapes, a, b, c));
    same(MultiplyInt8<AmxInstructions, Signs::kNone>(shapes, a, b, c),
         MultiplyInt8<AmxModel, Signs::kNone>(shapes, a, b, c));
  });
}

TEST_F(AmxTileInstructions, JudgeTininessAfterRounding) {
  const AmxTileShapes shapes = ProductShapes(1, 1, 2);
  for (const float small : {0x1p-75f, 0x1p-76f}) {
    TileBytes a, b;
    a.SetWord(0, 0, Pair(0x1p-126f, 0));
    a.SetWord(0, 1, Pair(-0x1p-75f, 0));
    b.SetWord(0, 0, Pair(1, 0));
    b.SetWord(1, 0, Pair(small, 0));
    EXPECT_EQ(MultiplyBFloat16<AmxInstructions>(shapes, a, b, {}).Sum(0, 0), small == 0x1p-75f ? 0 : 0x1p-126f);
  }
}

// Permission is for the process: one that is forked has it.
TEST_F(AmxTileInstructions, WorkInAForkedProcess) {
  const pid_t child = fork();
  if (child == 0) {
    TileBytes a, b;
    a.SetWord(0, 0, Pair(2, 3));
    b.SetWord(0, 0, Pair(4, 5));
    _exit(MultiplyBFloat16<AmxInstructions>(ProductShapes(1, 1, 1), a, b, {}).Sum(0, 0) == 23 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

}  // namespace
}  // namespace lshformer::testing
