#include "synth/sample_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

namespace lshformer {
namespace {

TEST(SampleTexts, AreParagraphsOfSomeHundredWords) {
  std::set<std::string_view> different;
  for (const std::string_view text : SampleTexts()) {
    std::istringstream words{std::string(text)};
    int count = 0;
    for (std::string word; words >> word;) ++count;
    EXPECT_GE(count, 250) << text.substr(0, 40);
    EXPECT_LE(count, 400) << text.substr(0, 40);
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }));
    EXPECT_EQ(text.find("  "), std::string_view::npos) << text.substr(0, 40);
    different.insert(text);
  }
  EXPECT_EQ(different.size(), SampleTexts().size());
  EXPECT_GE(different.size(), 16u);
}

}  // namespace
}  // namespace lshformer
