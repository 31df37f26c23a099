#include "infer/long_line.h"

#include <gtest/gtest.h>

namespace lshformer {
namespace {

TEST(WithShorterTextsTest, CutsTextsAtASpace) {
  EXPECT_EQ(
      WithShorterTexts(R"({"id": "a long identifier", "text": "one two three", "text_pair" : "four five six"})", 9),
      R"({"id": "a long identifier", "text": "one two", "text_pair" : "four"})");
  EXPECT_EQ(WithShorterTexts(R"({"text": "one \" two three"})", 10), R"({"text": "one \""})");
}

// Chinese has no spaces; Python's json writes it as escapes, and what lies beyond U+FFFF as two of them.
TEST(WithShorterTextsTest, CutsTextsWithoutSpacesBetweenCharacters) {
  EXPECT_EQ(WithShorterTexts(R"({"text": "onelongwordwithoutaspace"})", 9), R"({"text": "onelongw"})");
  for (size_t longest = 7; longest < 10; ++longest)
    EXPECT_EQ(WithShorterTexts(R"({"text": "語語語語"})", longest), R"({"text": "語語"})");
  for (size_t longest = 13; longest < 19; ++longest)
    EXPECT_EQ(WithShorterTexts(R"({"text": "\u8a9e\u8a9e\u8a9e\u8a9e"})", longest), R"({"text": "\u8a9e\u8a9e"})");
  for (size_t longest = 13; longest < 25; ++longest)
    EXPECT_EQ(WithShorterTexts(R"({"text": "\ud83d\ude00\ud83d\ude00x"})", longest), R"({"text": "\ud83d\ude00"})");
  EXPECT_EQ(WithShorterTexts(R"({"text": "a\n\n\n\n\n"})", 6), R"({"text": "a\n\n"})");
}

TEST(WithShorterTextsTest, LeavesAllElseAlone) {
  for (const char* line : {
           R"({"text": "short"})",
           R"({"id": {"text": "one two three"}})",
           R"({"other": "one two three", "x": ["text", "one two three"]})",
           R"(["text", "one two three"])",
           R"({"x": "text", "one two three": 1})",
           "{\"text\": \"one two three",
           "{\"text\": \"one two three\x01\"}",
           "{\"text\": \"one two three\\x\"}",
           "{\"text\": \"one two three\\u12\"}",
           "{\"text\": \"one two three\\u",
           "{\"text\": \"one two three\xff\"}",
           "",
       }) {
    EXPECT_EQ(WithShorterTexts(line, 9), std::nullopt) << line;
  }
}

}  // namespace
}  // namespace lshformer
