// Products with a packed factor in AMX tiles: against the steps that they are defined by, bit for bit; against
// double; what a row may depend on; and what is not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/cpu/amx/packing.h"
#include "kernels/cpu/amx/product.h"
#include "kernels/isa.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

constexpr uint16_t kNaNBits = 0x7FC0, kInfinityBits = 0x7F80;
constexpr PartPair kOnePair[] = {{0, 0}};

std::vector<uint16_t> RandomNumbers(int64_t count, uint64_t seed) {
  PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kSynthetic));
  std::vector<uint16_t> numbers(static_cast<size_t>(count));
  for (uint16_t& number : numbers)
    number = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(stream.Normal())) >> 16);
  return numbers;
}
std::vector<uint8_t> RandomBytes(int64_t count, uint64_t seed) {
  PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kSynthetic));
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(stream.Below(256));
  return bytes;
}

// Every number of the result is written once: the blocks are put together here, as [rows][columns].
template <class Sum>
std::vector<Sum> Sums(const PackedProduct& product) {
  const int64_t columns = product.b->columns();
  std::vector<Sum> sums(static_cast<size_t>(product.rows * columns));
  std::vector<int> written(sums.size());
  MultiplyPacked(product, [&](const SumBlock& block) {
    for (int m = 0; m < block.rows; ++m) {
      const int64_t at = (block.row + m) * columns + block.column;
      std::memcpy(sums.data() + at, block.sums + m * kPanelColumns, sizeof(Sum) * block.columns);
      for (int n = 0; n < block.columns; ++n) ++written[at + n];
    }
  });
  EXPECT_THAT(written, ::testing::Each(1));
  return sums;
}

// The same by one step after another: a tile's row of 32 numbers, its even and its odd members apart. So many steps are
// taken pair after pair.
std::vector<float> ByTheSteps(const std::vector<const uint16_t*>& a, const std::vector<const uint16_t*>& b,
                              std::span<const PartPair> pairs, int64_t rows, int64_t columns, int64_t depth,
                              int64_t stretch_steps = 1000) {
  std::vector<float> sums(static_cast<size_t>(rows * columns));
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < columns; ++n) {
      float sum = 0;
      const auto add_step = [&](const PartPair& pair, int64_t begin) {
        const uint16_t *row = a[pair.a] + m * depth, *column = b[pair.b] + n * depth;
        float members[2] = {0, 0};
        for (int64_t k = begin; k < std::min(depth, begin + kAmxTileRowNumbers); ++k)
          members[k % 2] =
              FusedWithoutSubnormals(ToFloat(BFloat16{row[k]}), ToFloat(BFloat16{column[k]}), members[k % 2]);
        sum = FusedWithoutSubnormals(1, FusedWithoutSubnormals(1, members[0], members[1]), sum);
      };
      for (int64_t from = 0; from < depth; from += stretch_steps * kAmxTileRowNumbers) {
        const int64_t to = std::min(depth, from + stretch_steps * kAmxTileRowNumbers);
        for (const PartPair& pair : pairs)
          for (int64_t step = from; step < to; step += kAmxTileRowNumbers) add_step(pair, step);
      }
      sums[static_cast<size_t>(m * columns + n)] = sum;
    }
  }
  return sums;
}

class AmxProductTest : public ::testing::TestWithParam<AmxTiles> {
 protected:
  void SetUp() override {
    if (GetParam() == AmxTiles::kInstructions && ActiveAmxTiles() != AmxTiles::kInstructions)
      GTEST_SKIP() << WhyNoAmx();
  }
  void TearDown() override { SetThreads(HardwareThreads()); }
};
INSTANTIATE_TEST_SUITE_P(Tiles, AmxProductTest, ::testing::Values(AmxTiles::kModel, AmxTiles::kInstructions),
                         [](const auto& info) { return info.param == AmxTiles::kModel ? "model" : "instructions"; });

struct Shape {
  int64_t rows, columns, depth;
};
// Around a tile's sides and a block's, one of everything, none of it.
const Shape kShapes[] = {
    {1, 1, 1},    {1, 33, 2},    {3, 16, 31}, {15, 17, 32}, {16, 32, 33},  {17, 48, 64},
    {31, 15, 65}, {33, 70, 100}, {70, 5, 96}, {5, 4, 0},    {200, 40, 450}};  // many blocks of rows: in stretches

TEST_P(AmxProductTest, IsWhatItsStepsSay) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.columns << " x " << s.depth);
    std::vector<uint16_t> a = RandomNumbers(s.rows * s.depth, 1), b = RandomNumbers(s.columns * s.depth, 2);
    if (s.depth > 3) a[3] = 0x0040, b[2] = 0x8001, a[0] = 0x0100;  // below 2⁻¹²⁶, and near it
    const void* const parts[] = {b.data()};
    const PackedAmxTiles packed(AmxNumbers::kBFloat16, parts, s.depth, s.columns);
    const std::vector<float> want = ByTheSteps({a.data()}, {b.data()}, kOnePair, s.rows, s.columns, s.depth);
    EXPECT_EQ(Sums<float>({&packed, {a.data()}, 2 * s.depth, s.rows, kOnePair, GetParam()}), want);
    std::vector<uint16_t> back(b.size());
    packed.Unpack(0, back.data());
    EXPECT_EQ(back, b);
  }
}

// In stretches of the depth, of which this has several.
TEST_P(AmxProductTest, AddsUpPairsOfPartsInTheirOrder) {
  const Shape s{19, 37, 330};
  const std::vector<uint16_t> a0 = RandomNumbers(s.rows * s.depth, 1), a1 = RandomNumbers(s.rows * s.depth, 2),
                              b0 = RandomNumbers(s.columns * s.depth, 3), b1 = RandomNumbers(s.columns * s.depth, 4);
  const void* const parts[] = {b0.data(), b1.data()};
  const PackedAmxTiles packed(AmxNumbers::kBFloat16, parts, s.depth, s.columns);
  const PartPair pairs[] = {{1, 1}, {0, 1}, {1, 0}, {0, 0}};
  EXPECT_EQ(Sums<float>({&packed, {a0.data(), a1.data()}, 2 * s.depth, s.rows, pairs, GetParam()}),
            ByTheSteps({a0.data(), a1.data()}, {b0.data(), b1.data()}, pairs, s.rows, s.columns, s.depth,
                       packed.stretch_steps()));
  ASSERT_LT(packed.stretch_steps(), packed.steps() / 2);
  std::vector<uint16_t> back(b1.size());
  packed.Unpack(1, back.data());
  EXPECT_EQ(back, b1);
}

// Each of `depth` fused steps rounds by at most 2⁻²⁴ of what has been added up so far.
TEST_P(AmxProductTest, AgreesWithDouble) {
  const Shape s{45, 40, 768};
  const std::vector<uint16_t> a = RandomNumbers(s.rows * s.depth, 1), b = RandomNumbers(s.columns * s.depth, 2);
  std::vector<double> exact(static_cast<size_t>(s.rows * s.columns)), bounds(exact.size());
  for (int64_t i = 0; i < s.rows * s.columns; ++i) {
    const uint16_t *row = a.data() + i / s.columns * s.depth, *column = b.data() + i % s.columns * s.depth;
    double size = 0;
    for (int64_t k = 0; k < s.depth; ++k) {
      const double product = double{ToFloat(BFloat16{row[k]})} * ToFloat(BFloat16{column[k]});
      exact[i] += product;
      size += std::abs(product);
    }
    // 16 in each of two sums, that of both, and one for each of the steps.
    bounds[i] = (17 + static_cast<double>(s.depth) / kAmxTileRowNumbers) * 0x1p-24 * size;
  }
  const void* const parts[] = {b.data()};
  const PackedAmxTiles packed(AmxNumbers::kBFloat16, parts, s.depth, s.columns);
  EXPECT_THAT(Sums<float>({&packed, {a.data()}, 2 * s.depth, s.rows, kOnePair, GetParam()}),
              WithinRounding(exact, bounds));
}

TEST_P(AmxProductTest, SumsOfBytesAreExact) {
  for (const Shape& s : kShapes) {
    const std::vector<uint8_t> a = RandomBytes(s.rows * s.depth, 1), b = RandomBytes(s.columns * s.depth, 2);
    std::vector<int32_t> want(static_cast<size_t>(s.rows * s.columns));
    for (int64_t i = 0; i < s.rows * s.columns; ++i) {
      for (int64_t k = 0; k < s.depth; ++k)
        want[i] += a[i / s.columns * s.depth + k] * static_cast<int8_t>(b[i % s.columns * s.depth + k]);
    }
    const void* const parts[] = {b.data()};
    const PackedAmxTiles packed(AmxNumbers::kBytes, parts, s.depth, s.columns);
    EXPECT_EQ(Sums<int32_t>({&packed, {a.data()}, s.depth, s.rows, kOnePair, GetParam()}), want)
        << s.rows << " x " << s.columns << " x " << s.depth;
  }
}

// Alone, in calls of any size, at any place in them, on any number of threads.
TEST_P(AmxProductTest, RowsDoNotDependOnTheCall) {
  const PartPair two_pairs[] = {{0, 1}, {0, 0}};
  for (const Shape& s : {Shape{300, 100, 96}, Shape{150, 33, 75}, Shape{230, 33, 520}}) {
    const std::vector<uint16_t> a = RandomNumbers(s.rows * s.depth, 1), b = RandomNumbers(s.columns * s.depth, 2);
    const void* const parts[] = {b.data(), a.data()};
    const bool two = s.depth > 500;  // several stretches
    const PackedAmxTiles packed(AmxNumbers::kBFloat16, std::span(parts).first(two ? 2 : 1), s.depth, s.columns);
    const auto pairs = two ? std::span<const PartPair>(two_pairs) : std::span<const PartPair>(kOnePair);
    const auto run = [&](int64_t first, int64_t rows) {
      return Sums<float>({&packed, {a.data() + first * s.depth}, 2 * s.depth, rows, pairs, GetParam()});
    };
    SetThreads(1);
    const std::vector<float> all = run(0, s.rows);
    for (const int threads : {1, 2, 3, 48}) {
      SetThreads(threads);
      for (int64_t rows = 1; rows <= s.rows; rows += rows < 36 ? (threads == 1 ? 1 : 5) : 33) {
        const int64_t first = rows * 7 % (s.rows - rows + 1);
        const std::vector<float> some = run(first, rows);
        ASSERT_EQ(std::memcmp(some.data(), all.data() + first * s.columns, some.size() * sizeof(float)), 0)
            << rows << " rows from " << first << ", " << threads << " threads";
      }
    }
  }
}

// What is not finite stays in its row and its column; what lies behind a row's end is not asked for.
TEST_P(AmxProductTest, NotFinite) {
  for (const int64_t depth : {int64_t{40}, int64_t{64}}) {
    const int64_t rows = 35, columns = 34, stride = depth + 7;
    std::vector<uint16_t> a(static_cast<size_t>(rows * stride), kNaNBits), b = RandomNumbers(columns * depth, 2);
    const std::vector<uint16_t> numbers = RandomNumbers(rows * depth, 1);
    for (int64_t m = 0; m < rows; ++m) std::copy_n(numbers.begin() + m * depth, depth, a.begin() + m * stride);
    const void* const parts[] = {b.data()};
    const auto run = [&] {
      const PackedAmxTiles packed(AmxNumbers::kBFloat16, parts, depth, columns);
      return Sums<float>({&packed, {a.data()}, 2 * stride, rows, kOnePair, GetParam()});
    };
    const std::vector<float> before = run();
    EXPECT_THAT(before, ::testing::Each(::testing::Truly([](float x) { return std::isfinite(x); })));
    a[33 * stride + 2] = kNaNBits;
    a[4 * stride + 5] = kInfinityBits;
    b[17 * depth + 1] = kInfinityBits;
    const std::vector<float> after = run();
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t m = i / columns, n = i % columns;
      if (m == 33) {
        ASSERT_TRUE(std::isnan(after[i])) << m << ", " << n;
      } else if (m == 4 || n == 17) {
        ASSERT_FALSE(std::isfinite(after[i])) << m << ", " << n;
      } else {
        ASSERT_EQ(after[i], before[i]) << m << ", " << n;
      }
    }
  }
}

class AmxPackingTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceIsa(GetParam()); }
  void TearDown() override { ForceIsa("auto"); }
};
INSTANTIATE_TEST_SUITE_P(Isas, AmxPackingTest, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& info) { return info.param; });

TEST_P(AmxPackingTest, TurnsHalvesRound) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {32, 16}, {31, 17}, {33, 15}, {70, 100}}) {
    const std::vector<uint16_t> from = RandomNumbers(rows * columns, 1);
    std::vector<uint16_t> to(from.size());
    TransposeHalves(from.data(), rows, columns, to.data());
    for (int64_t i = 0; i < rows * columns; ++i)
      ASSERT_EQ(to[i % columns * rows + i / columns], from[i]) << rows << " x " << columns << ", " << i;
  }
}

// A factor by rows is the same in tiles as by columns, and is what it was.
TEST_P(AmxPackingTest, RowsAndColumns) {
  for (const Shape& s : kShapes) {
    const std::vector<uint16_t> rows = RandomNumbers(s.depth * s.columns, 1),
                                more = RandomNumbers(s.depth * s.columns, 2);
    std::vector<uint16_t> columns(rows.size()), more_columns(rows.size()), back(rows.size());
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      columns[i % s.columns * s.depth + i / s.columns] = rows[i];
      more_columns[i % s.columns * s.depth + i / s.columns] = more[i];
    }
    const void *const parts[] = {columns.data(), more_columns.data()}, *const parts_by_rows[] = {rows.data(),
                                                                                                 more.data()};
    const PackedAmxTiles by_columns(AmxNumbers::kBFloat16, parts, s.depth, s.columns),
        by_rows = PackedAmxTiles::OfRows(parts_by_rows, s.depth, s.columns);
    ASSERT_EQ(by_rows.bytes(), by_columns.bytes());
    EXPECT_EQ(std::memcmp(by_rows.Panel(0, 0), by_columns.Panel(0, 0), by_rows.bytes()), 0)
        << s.columns << " x " << s.depth;
    by_rows.Unpack(0, back.data());
    EXPECT_EQ(back, columns);
    by_rows.Unpack(1, back.data());
    EXPECT_EQ(back, more_columns);
  }
}

TEST(AmxProduct, NeedsTiles) {
  const uint16_t number = 0x3F80;
  const void* const parts[] = {&number};
  const PackedAmxTiles packed(AmxNumbers::kBFloat16, parts, 1, 1);
  EXPECT_THROW(MultiplyPacked({&packed, {&number}, 2, 1, kOnePair, AmxTiles::kNone}, [](const SumBlock&) {}),
               std::logic_error);
}

TEST(AmxProduct, RowsOfAGroup) {
  EXPECT_EQ(RowsOfGroup(10, 1536, 24, 1), 32);    // one block
  EXPECT_EQ(RowsOfGroup(512, 1536, 24, 1), 512);  // of BERT base: 768 KB
  EXPECT_EQ(RowsOfGroup(512, 6144, 24, 1), 160);  // its widest: 960 KB
  EXPECT_EQ(RowsOfGroup(512, 1536, 24, 2), 512);  // 24 pieces for 2 threads
  EXPECT_EQ(RowsOfGroup(512, 1536, 24, 48), 64);  // 192 pieces for 48
  EXPECT_EQ(RowsOfGroup(10, 1536, 24, 48), 32);   // there are no more than 24
  EXPECT_EQ(RowsOfGroup(1, 4 << 20, 1, 1), 32);   // of any depth
  EXPECT_EQ(RowsOfGroup(100, 0, 1, 1), 128);      // of none
}

}  // namespace
}  // namespace lshformer::testing
