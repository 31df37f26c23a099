// Of how many products float32's are made, and the names of that choice.
#include "kernels/matmul_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/errors.h"

namespace lshformer::testing {
namespace {

TEST(MatmulPrecisionNames, AreReadAsTheyAreWritten) {
  for (const char* name : {"highest", "high", "medium"}) EXPECT_STREQ(Name(ParseMatmulPrecision(name)), name);
  EXPECT_THAT(ErrorOf([] { ParseMatmulPrecision("low"); }),
              ::testing::HasSubstr("expected highest, high or medium, got \"low\""));
}

TEST(MatmulPrecisionNames, ChoiceOfProducts) {
  using enum MatmulPrecision;
  for (const MatmulPrecision precision : {kHighest, kHigh, kMedium})
    EXPECT_EQ(ProductsOfFloat32(precision, 768, 768, /*tiles=*/false), 0);
  struct Row {
    int64_t inner, columns;
    int high, medium;
  };
  for (const Row& row : {Row{768, 768, 3, 1}, Row{768, 3072, 3, 1}, Row{3072, 768, 3, 1}, Row{128, 128, 3, 1},
                         Row{64, 64, 3, 1}, Row{768, 32, 3, 1},  // one panel
                         Row{768, 33, 3, 1},                     // two, one of them nearly empty
                         Row{768, 2, 0, 0},                      // a classifier
                         Row{2, 768, 0, 0},                      // of 32 numbers 30 are zeros
                         Row{0, 0, 0, 0}}) {
    const auto products = [&](MatmulPrecision precision) {
      return row.columns == 0 ? 0 : ProductsOfFloat32(precision, row.inner, row.columns, /*tiles=*/true);
    };
    EXPECT_EQ(products(kHighest), 0) << row.inner << " x " << row.columns;
    EXPECT_EQ(products(kHigh), row.high) << row.inner << " x " << row.columns;
    EXPECT_EQ(products(kMedium), row.medium) << row.inner << " x " << row.columns;
  }
}

// Of 768 columns and more the weight's share and its packing are small beside the products; of a narrow weight's
// gradient splitting and turning round take as long as multiply-add does.
TEST(MatmulPrecisionNames, ChoiceOfProductsInTraining) {
  using enum MatmulPrecision;
  struct Row {
    int64_t rows, columns, inner;
    bool of_tokens;
    int high, medium;
  };
  for (const Row& row : {Row{1000, 768, 768, false, 3, 1}, Row{1000, 128, 128, false, 3, 1},
                         Row{1000, 64, 64, false, 3, 1}, Row{1000, 2, 768, false, 0, 0}, Row{1000, 768, 2, false, 0, 0},
                         Row{768, 768, 1024, true, 3, 1}, Row{128, 128, 1024, true, 3, 1},
                         Row{64, 64, 1024, true, 0, 0}, Row{768, 768, 8, true, 0, 1}, Row{2, 768, 1024, true, 0, 0}}) {
    const auto products = [&](MatmulPrecision precision, int64_t rows, bool tiles = true) {
      MatrixProduct product;
      product.rows = rows, product.columns = row.columns, product.inner = row.inner;
      product.inner_is_tokens = row.of_tokens;
      return ProductsInTraining(precision, product, tiles);
    };
    SCOPED_TRACE(::testing::Message() << row.rows << " x " << row.columns << " of " << row.inner);
    EXPECT_EQ(products(kHighest, row.rows), 0);
    EXPECT_EQ(products(kHigh, row.rows), row.high);
    EXPECT_EQ(products(kMedium, row.rows), row.medium);
    EXPECT_EQ(products(kHigh, row.rows, /*tiles=*/false), 0);
    if (row.of_tokens) continue;
    EXPECT_EQ(products(kHigh, 1), row.high) << "a row's bits are its own";
  }
}

}  // namespace
}  // namespace lshformer::testing
