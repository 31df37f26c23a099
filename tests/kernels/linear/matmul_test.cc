#include "kernels/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl_types.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/parallel.h"
#include "kernels/ref/matmul.h"
#include "util/command.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

struct WeightShape {
  int64_t columns, inner;
};
// Heads, odd sizes that end inside a vector, the layers of the BERT-LSH paper's model and one of BERT-base's width.
const WeightShape kWeightShapes[] = {{1, 8},     {2, 128},   {3, 7},     {33, 50},  {96, 32},
                                     {128, 512}, {384, 128}, {512, 128}, {768, 768}};

struct MatmulFactors {
  MatmulFactors(const WeightShape& shape, int64_t rows)
      : shape(shape),
        a(Random(rows * shape.inner, 1)),
        weight(Random(shape.columns * shape.inner, 2)),
        bias(Random(shape.columns, 3)) {}
  // The first `rows` rows from row `first` on.
  std::vector<float> Product(int64_t first, int64_t rows, bool packed) const {
    std::vector<float> c(rows * shape.columns, NAN);
    const float* from = a.data() + first * shape.inner;
    const MatrixView b{weight.data(), 1, shape.inner};
    if (packed) {
      const PackedMatrix matrix(b, shape.inner, shape.columns);
      matrix.Multiply(rows, from, shape.inner, bias.data(), c.data(), shape.columns);
    } else {
      Multiply({.rows = rows,
                .columns = shape.columns,
                .inner = shape.inner,
                .a = {from, shape.inner, 1},
                .b = b,
                .bias = bias.data(),
                .c = c.data(),
                .c_stride = shape.columns});
    }
    return c;
  }
  WeightShape shape;
  std::vector<float> a, weight, bias;
};

class MatmulTest : public ::testing::Test {
 protected:
  ~MatmulTest() override { SetThreads(HardwareThreads()); }
};

// A row of the result is the same bits alone, in any call and at any place in it, at one thread and at two, packed or
// not.
TEST_F(MatmulTest, RowsDoNotDependOnTheCall) {
  constexpr int64_t kRows = 300;
  for (const WeightShape& shape : kWeightShapes) {
    SCOPED_TRACE(::testing::Message() << shape.columns << " columns, inner " << shape.inner);
    const MatmulFactors operands(shape, kRows);
    for (const bool packed : {false, true}) {
      SetThreads(1);
      const std::vector<float> all = operands.Product(0, kRows, packed);
      for (const int threads : {1, 2}) {
        SetThreads(threads);
        for (int64_t rows = 1; rows <= kRows; rows += rows < 40 ? 1 : 13) {
          const int64_t first = (rows * 7) % (kRows - rows + 1);
          const std::vector<float> some = operands.Product(first, rows, packed);
          ASSERT_EQ(std::memcmp(some.data(), all.data() + first * shape.columns, some.size() * sizeof(float)), 0)
              << rows << " rows from " << first << ", " << threads << " threads, packed " << packed;
        }
      }
    }
  }
}

// The same without AVX-512, where products go through panels.
TEST_F(MatmulTest, RowsDoNotDependOnTheCallWithAvx2) {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) GTEST_SKIP() << "oneDNN is limited already";
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  const auto result = RunCommand({"/proc/self/exe",
                                  "--gtest_filter=MatmulTest.RowsDoNotDependOnTheCall:"
                                  "MatmulTest.AgreesWithDouble:MatmulTest.TransposedFactorsAndAccumulation:"
                                  "MatmulTest.WeightGradientsOfAnyNumberOfTokens:"
                                  "MatmulTest.WidePlainFactorsGiveTheBitsOfPackedOnes"});
  unsetenv("ONEDNN_MAX_CPU_ISA");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ::testing::HasSubstr("[  PASSED  ] 5 tests"));  // no name in the filter is out of date
}

// |c − exact| ≤ inner · eps · Σ|a||b|, the bound of any order of summation.
TEST_F(MatmulTest, AgreesWithDouble) {
  for (const WeightShape& shape : kWeightShapes) {
    const int64_t rows = 37;
    const MatmulFactors operands(shape, rows);
    ref::ProductSums exact = ref::Multiply({.rows = rows,
                                            .columns = shape.columns,
                                            .inner = shape.inner,
                                            .a = {operands.a.data(), shape.inner, 1},
                                            .b = {operands.weight.data(), 1, shape.inner},
                                            .bias = operands.bias.data()});
    for (double& size : exact.sizes) size *= static_cast<double>(shape.inner + 1) * kFloatEps;
    EXPECT_THAT(operands.Product(0, rows, false), WithinRounding(exact.sums, exact.sizes));
    EXPECT_THAT(operands.Product(0, rows, true), WithinRounding(exact.sums, exact.sizes));
  }
}

// Both orders of both factors, a strided result, and adding to what is there: the products of a backward.
TEST_F(MatmulTest, TransposedFactorsAndAccumulation) {
  const int64_t rows = 35, columns = 20, inner = 70, stride = 29;
  const auto a = Random(rows * inner, 1), b = Random(inner * columns, 2), start = Random(rows * stride, 3);
  std::vector<float> a_turned(a.size()), b_turned(b.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k) a_turned[k * rows + i] = a[i * inner + k];
  for (int64_t k = 0; k < inner; ++k)
    for (int64_t j = 0; j < columns; ++j) b_turned[j * inner + k] = b[k * columns + j];
  std::vector<double> want(start.begin(), start.end());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t k = 0; k < inner; ++k) want[i * stride + j] += double{a[i * inner + k]} * b[k * columns + j];
  const MatrixView plain_a{a.data(), inner, 1}, turned_a{a_turned.data(), 1, rows};
  const MatrixView plain_b{b.data(), columns, 1}, turned_b{b_turned.data(), 1, inner};
  for (const MatrixView& view_a : {plain_a, turned_a})
    for (const MatrixView& view_b : {plain_b, turned_b})
      for (const bool tokens : {false, true}) {
        std::vector<float> c = start;
        Multiply({.rows = rows,
                  .columns = columns,
                  .inner = inner,
                  .a = view_a,
                  .b = view_b,
                  .c = c.data(),
                  .c_stride = stride,
                  .accumulate = true,
                  .inner_is_tokens = tokens});
        EXPECT_THAT(c, WithinRounding(want, 71 * 0x1p-24 * 300));  // Σ|a||b| stays below 300 for these numbers
      }
}

// A weight gradient sums over tokens in pieces: any number of them, added to what is there or not.
TEST_F(MatmulTest, WeightGradientsOfAnyNumberOfTokens) {
  struct Case {
    int64_t out, in, tokens;
  };
  std::vector<Case> cases{{256, 2304, 40}, {256, 2304, 130}};  // wide enough to be packed
  for (const int64_t tokens : {0, 1, 15, 16, 127, 129, 1024, 1500, 2177}) cases.push_back({33, 20, tokens});
  for (const auto& [out, in, tokens] : cases) {
    const auto grad = Random(tokens * out, 1), x = Random(tokens * in, 2), start = Random(out * in, 3);
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, accumulate " << accumulate);
      std::vector<double> want(out * in, 0.0);
      if (accumulate) want.assign(start.begin(), start.end());
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t i = 0; i < out; ++i)
          for (int64_t j = 0; j < in; ++j) want[i * in + j] += double{grad[t * out + i]} * x[t * in + j];
      std::vector<float> c = start;
      Multiply({.rows = out,
                .columns = in,
                .inner = tokens,
                .a = {grad.data(), 1, out},
                .b = {x.data(), in, 1},
                .c = c.data(),
                .c_stride = in,
                .accumulate = accumulate,
                .inner_is_tokens = true});
      // Σ|a||b| is about 0.64 a token; sums of n numbers round by at most n · 2⁻²⁴ of it.
      EXPECT_THAT(c, WithinRounding(want, static_cast<double>(tokens + 1) * 0x1p-24 * (4.0 + 1.5 * tokens)));
    }
  }
}

// A packed matrix is read in the layout that it was packed in, whatever oneDNN would prefer at the moment of the call:
// on AMX its preference for bfloat16 hangs on the number of threads. Here two layouts are given, at most one of them
// the preferred one; read in another, columns would change places.
TEST_F(MatmulTest, APackedMatrixKeepsItsLayout) {
  for (const WeightShape& shape : {WeightShape{384, 128}, WeightShape{96, 50}}) {
    const int64_t rows = 19;
    const MatmulFactors operands(shape, rows);
    const std::vector<float> want = operands.Product(0, rows, /*packed=*/false);
    std::vector<double> bounds(want.size());
    for (size_t i = 0; i < want.size(); ++i)
      bounds[i] = static_cast<double>(shape.inner) * 0x1p-24 * (8.0 * std::sqrt(shape.inner) + std::abs(want[i]));
    const std::vector<double> exact(want.begin(), want.end());
    for (const dnnl_format_tag_t tag : {dnnl_BA16a16b, dnnl_BA16a48b, dnnl_BA16a64b}) {
      SCOPED_TRACE(::testing::Message() << shape.columns << " columns, tag " << tag);
      const PackedMatrix matrix({operands.weight.data(), 1, shape.inner}, shape.inner, shape.columns, tag);
      for (const int threads : {1, 2, 5}) {
        SetThreads(threads);
        std::vector<float> c(want.size(), NAN);
        matrix.Multiply(rows, operands.a.data(), shape.inner, operands.bias.data(), c.data(), shape.columns);
        EXPECT_THAT(c, WithinRounding(exact, bounds)) << threads << " threads";
      }
    }
  }
}

// Many rows by a wide plain factor pack it, few do not: the same bits, at one thread and at two. Wide ones that are and
// that are not powers of two, and one that ends inside a vector.
TEST_F(MatmulTest, WidePlainFactorsGiveTheBitsOfPackedOnes) {
  constexpr int64_t kRows = 300;
  for (const WeightShape& shape : {WeightShape{2304, 40}, {3072, 96}, {2051, 7}, {4096, 24}}) {
    SCOPED_TRACE(::testing::Message() << shape.columns << " columns, inner " << shape.inner);
    const std::vector<float> a = Random(kRows * shape.inner, 1), b = Random(shape.inner * shape.columns, 2);
    const auto product = [&](int64_t first, int64_t rows) {
      std::vector<float> c(rows * shape.columns, NAN);
      Multiply({.rows = rows,
                .columns = shape.columns,
                .inner = shape.inner,
                .a = {a.data() + first * shape.inner, shape.inner, 1},
                .b = {b.data(), shape.columns, 1},
                .c = c.data(),
                .c_stride = shape.columns});
      return c;
    };
    SetThreads(1);
    const std::vector<float> all = product(0, kRows);
    for (int64_t j = 0; j < shape.columns; j += 97) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < shape.inner; ++k) {
        const double term = static_cast<double>(a[k]) * b[k * shape.columns + j];
        sum += term, size += std::abs(term);
      }
      EXPECT_NEAR(all[j], sum, 1e-5 * size) << j;
    }
    for (const int threads : {1, 2}) {
      SetThreads(threads);
      EXPECT_EQ(product(0, kRows), all) << threads << " threads";
      for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 1}, {17, 48}, {40, 255}, {44, 256}}) {
        const std::vector<float> part = product(first, rows);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first * shape.columns))
            << rows << " rows from " << first << ", " << threads << " threads";
      }
    }
  }
}

TEST_F(MatmulTest, NoRowsAreNoWork) {
  const MatmulFactors operands({3, 7}, 1);
  EXPECT_THAT(operands.Product(0, 0, true), ::testing::IsEmpty());
  EXPECT_THAT(operands.Product(0, 0, false), ::testing::IsEmpty());
  std::vector<float> c(3, 5.0f);  // not even cleared
  Multiply({.rows = 0,
            .columns = 3,
            .inner = 7,
            .a = {operands.a.data(), 7, 1},
            .b = {operands.weight.data(), 1, 7},
            .c = c.data(),
            .c_stride = 3});
  EXPECT_THAT(c, ::testing::Each(5.0f));
}

TEST(RowBlockTest, OnlyAvx512BatchReduceKernelsTakeAllRowsAtOnce) {
  EXPECT_EQ(RowBlock("brg:avx512_core"), 0);
  EXPECT_EQ(RowBlock("brg:avx512_core_bf16"), 0);
  EXPECT_GT(RowBlock("brg:avx512_core_bf16_amx_bf16"), 0);
  EXPECT_GT(RowBlock("gemm:jit"), 0);
  EXPECT_GT(RowBlock("brg:avx2"), 0);
  EXPECT_GT(RowBlock("ref:any"), 0);
}

}  // namespace
}  // namespace lshformer::testing
