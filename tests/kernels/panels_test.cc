// Products by panels, under every instruction set: where processors have AVX-512 nothing else runs them.
#include "kernels/cpu/panels/panels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "kernels/cpu/aligned_floats.h"
#include "kernels/isa.h"
#include "kernels/ref/matmul.h"
#include "util/numbers.h"
#include "util/rounding.h"

namespace lshformer::testing {
namespace {

struct PanelShape {
  int64_t rows, columns, inner;
};
// Around tiles of 6 and of 3 rows, panels of 16 columns, stretches of 384 terms, pieces of 128 rows and 384 columns,
// and what of a plain factor is packed at a time.
const PanelShape kPanelShapes[] = {{1, 1, 1},     {2, 15, 7},     {3, 16, 383}, {5, 17, 384},  {6, 33, 385},
                                   {7, 384, 20},  {13, 400, 50},  {128, 48, 9}, {129, 50, 40}, {300, 20, 70},
                                   {9, 30, 1600}, {4, 1050, 770}, {3, 2060, 20}};

class PanelsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceIsa(GetParam()); }
  void TearDown() override {
    ForceIsa("auto");
    SetThreads(HardwareThreads());
  }
};

// Both orders of both factors, a strided result that is added to or not, a bias or none.
TEST_P(PanelsTest, AgreeWithDouble) {
  for (const auto& [rows, columns, inner] : kPanelShapes) {
    const int64_t stride = columns + 3;
    const std::vector<float> a = Random(rows * inner, 1), b = Random(inner * columns, 2), bias = Random(columns, 3),
                             start = Random(rows * stride, 4);
    for (int way = 0; way < 16; ++way) {
      const bool a_turned = (way & 1) != 0, b_turned = (way & 2) != 0, biased = (way & 4) != 0, adds = (way & 8) != 0;
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " x " << inner << ", way " << way);
      std::vector<float> c = start;
      const MatrixProduct product{.rows = rows,
                                  .columns = columns,
                                  .inner = inner,
                                  .a = a_turned ? MatrixView{a.data(), 1, rows} : MatrixView{a.data(), inner, 1},
                                  .b = b_turned ? MatrixView{b.data(), 1, inner} : MatrixView{b.data(), columns, 1},
                                  .bias = biased ? bias.data() : nullptr,
                                  .c = c.data(),
                                  .c_stride = stride,
                                  .accumulate = adds};
      const ref::ProductSums exact = ref::Multiply(product);
      MultiplyByPanels(product);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j)
          ASSERT_NEAR(c[i * stride + j], exact.sums[i * columns + j],
                      static_cast<double>(inner + 2) * 0x1p-24 * exact.sizes[i * columns + j])
              << i << ", " << j;
        for (int64_t j = columns; j < stride; ++j) ASSERT_EQ(c[i * stride + j], start[i * stride + j]) << i;
      }
    }
  }
}

// Packed before or in the call, with some rows or all, some columns or all, on any number of threads.
TEST_P(PanelsTest, AnElementDoesNotDependOnTheCall) {
  for (const auto& [rows, columns, inner] : kPanelShapes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " x " << inner);
    const std::vector<float> a = Random(rows * inner, 1), b = Random(inner * columns, 2);
    const MatrixView weight{b.data(), 1, inner};
    SetThreads(1);
    std::vector<float> all(rows * columns, NAN);
    MatrixProduct product{.rows = rows,
                          .columns = columns,
                          .inner = inner,
                          .a = {a.data(), inner, 1},
                          .b = weight,
                          .c = all.data(),
                          .c_stride = columns};
    MultiplyByPanels(product);
    const AlignedFloats panels = AllocateFloats(PanelNumbers(inner, columns));
    for (const int threads : {1, 2, 7}) {
      SetThreads(threads);
      PackPanels(weight, inner, columns, panels.get());
      for (const int64_t first : {int64_t{0}, rows / 2, rows - 1}) {
        std::vector<float> some((rows - first) * columns, NAN);
        product.rows = rows - first, product.a.data = a.data() + first * inner, product.c = some.data();
        for (const bool packed : {true, false}) {
          packed ? MultiplyPanels(product, panels.get()) : MultiplyByPanels(product);
          ASSERT_EQ(std::memcmp(some.data(), all.data() + first * columns, some.size() * sizeof(float)), 0)
              << threads << " threads, from row " << first << ", packed " << packed;
        }
        MatrixProduct last = product;  // column
        last.columns = 1, last.b.data += (columns - 1) * inner, last.c = some.data(), last.c_stride = 1;
        MultiplyByPanels(last);
        for (int64_t i = 0; i < last.rows; ++i) ASSERT_EQ(some[i], all[(first + i) * columns + columns - 1]) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, PanelsTest, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lshformer::testing
