#include "io/lines_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Texts(const std::vector<LineAhead>& lines) {
  std::vector<std::string> texts;
  for (const LineAhead& line : lines) texts.push_back(line.text);
  return texts;
}

class LinesAheadTest : public ::testing::Test {
 protected:
  testing::TempFolder folder_;
};

TEST_F(LinesAheadTest, EndsWithItsLinesOrBytesOrTheFile) {
  LineReader reader(folder_.Write("a.txt", "one\ntwo\nthree\nfour\nfive\n"));
  std::vector<LineAhead> lines;
  EXPECT_TRUE(ReadLinesAhead(reader, 2, 100, lines));
  EXPECT_THAT(Texts(lines), ElementsAre("one", "two"));
  EXPECT_THAT(lines[1].where, HasSubstr("a.txt:2"));
  lines.clear();
  EXPECT_TRUE(ReadLinesAhead(reader, 100, 6, lines));  // the line that reaches the bytes belongs to it
  EXPECT_THAT(Texts(lines), ElementsAre("three", "four"));
  lines.clear();
  EXPECT_FALSE(ReadLinesAhead(reader, 100, 100, lines));
  EXPECT_THAT(Texts(lines), ElementsAre("five"));
  lines.clear();
  EXPECT_FALSE(ReadLinesAhead(reader, 100, 100, lines));
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(LinesAheadTest, ARefusedLineKeepsItsPlace) {
  LineReader reader(folder_.Write("a.txt", "one\nmuch too long\nthree\n"), {.longest = 8});
  std::vector<LineAhead> lines;
  EXPECT_FALSE(ReadLinesAhead(reader, 100, 100, lines));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[1].error, HasSubstr("a.txt:2"));
  EXPECT_THAT(lines[2].where, HasSubstr("a.txt:3"));
  EXPECT_THAT(lines[0].error + lines[2].error, IsEmpty());
}

}  // namespace
}  // namespace lshformer
