#include "text/code_points.h"

#include <gtest/gtest.h>

namespace lshformer {
namespace {

TEST(CodePointIndex, SlicesAsPythonDoes) {
  const std::string text = "aé東😀z";
  const CodePointIndex index(text);
  EXPECT_EQ(index.size(), 5);
  EXPECT_EQ(CountCodePoints(text), 5);
  EXPECT_EQ(index.Slice(0, 5), text);
  EXPECT_EQ(index.Slice(1, 3), "é東");
  EXPECT_EQ(index.Slice(3, 4), "😀");
  EXPECT_EQ(index.Slice(5, 5), "");
  EXPECT_EQ(index.Slice(4, 5), "z");
}

TEST(CodePointIndex, OfAsciiAndOfNothing) {
  EXPECT_EQ(CodePointIndex("hello").Slice(1, 4), "ell");
  EXPECT_EQ(CodePointIndex("hello").size(), 5);
  EXPECT_EQ(CodePointIndex("").size(), 0);
  EXPECT_EQ(CodePointIndex("").Slice(0, 0), "");
}

}  // namespace
}  // namespace lshformer
