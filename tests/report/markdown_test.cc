#include "report/markdown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace lshformer {
namespace {

using ::testing::HasSubstr;

const std::string kWord = "twelve bytes";

TEST(MarkdownTest, TextIsBrokenWithinTheColumns) {
  std::string text = kWord;
  for (int i = 0; i < 40; ++i) text += " " + kWord;
  for (const std::string& out : {MarkdownParagraph(text), MarkdownItem(text)}) {
    std::istringstream lines(out);
    std::string joined;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 120U);
      if (line.empty()) continue;
      joined +=
          (joined.empty() ? "" : " ") + (line.starts_with("- ") || line.starts_with("  ") ? line.substr(2) : line);
    }
    EXPECT_EQ(joined, text);
  }
  EXPECT_EQ(MarkdownParagraph("short"), "short\n\n");
  EXPECT_EQ(MarkdownItem("short"), "- short\n");
}

// What a line happens to begin with after a break starts no list, heading or quotation.
TEST(MarkdownTest, ABreakMakesNoBlock) {
  const std::string filler(118, 'x');
  EXPECT_THAT(MarkdownParagraph(filler + " - and so on"), HasSubstr("\n\\- and so on"));
  EXPECT_THAT(MarkdownParagraph(filler + " # 3"), HasSubstr("\n\\# 3"));
  EXPECT_THAT(MarkdownParagraph(filler + " 2. of them"), HasSubstr("\n2\\. of them"));
  EXPECT_THAT(MarkdownParagraph(filler + " 2 of them"), HasSubstr("\n2 of them"));
}

}  // namespace
}  // namespace lshformer
