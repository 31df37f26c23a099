#include "io/line_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Texts(const std::vector<WindowLine>& window) {
  std::vector<std::string> texts;
  for (const WindowLine& line : window) texts.push_back(line.text);
  return texts;
}

class LineWindowTest : public ::testing::Test {
 protected:
  testing::TempFolder folder_;
};

TEST_F(LineWindowTest, EndsWithItsLinesOrBytesOrTheFile) {
  LineReader reader(folder_.Write("a.txt", "one\ntwo\nthree\nfour\nfive\n"));
  std::vector<WindowLine> window;
  EXPECT_TRUE(ReadWindow(reader, 2, 100, window));
  EXPECT_THAT(Texts(window), ElementsAre("one", "two"));
  EXPECT_THAT(window[1].where, HasSubstr("a.txt:2"));
  window.clear();
  EXPECT_TRUE(ReadWindow(reader, 100, 6, window));  // the line that reaches the bytes belongs to it
  EXPECT_THAT(Texts(window), ElementsAre("three", "four"));
  window.clear();
  EXPECT_FALSE(ReadWindow(reader, 100, 100, window));
  EXPECT_THAT(Texts(window), ElementsAre("five"));
  window.clear();
  EXPECT_FALSE(ReadWindow(reader, 100, 100, window));
  EXPECT_THAT(window, IsEmpty());
}

TEST_F(LineWindowTest, ARefusedLineKeepsItsPlace) {
  LineReader reader(folder_.Write("a.txt", "one\nmuch too long\nthree\n"), {.longest = 8});
  std::vector<WindowLine> window;
  EXPECT_FALSE(ReadWindow(reader, 100, 100, window));
  ASSERT_EQ(window.size(), 3u);
  EXPECT_THAT(window[1].error, HasSubstr("a.txt:2"));
  EXPECT_THAT(window[2].where, HasSubstr("a.txt:3"));
  EXPECT_THAT(window[0].error + window[2].error, IsEmpty());
}

}  // namespace
}  // namespace lshformer
