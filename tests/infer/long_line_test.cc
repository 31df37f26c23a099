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

TEST(WithShorterTextsTest, LeavesAllElseAlone) {
  for (const char* line : {
           R"({"text": "short"})",
           R"({"text": "onelongwordwithoutaspace"})",
           R"({"id": {"text": "one two three"}})",
           R"({"other": "one two three", "x": ["text", "one two three"]})",
           R"(["text", "one two three"])",
           R"({"x": "text", "one two three": 1})",
           "{\"text\": \"one two three",
           "{\"text\": \"one two three\x01\"}",
           "{\"text\": \"one two three\\x\"}",
           "{\"text\": \"one two three\xff\"}",
           "",
       }) {
    EXPECT_EQ(WithShorterTexts(line, 9), std::nullopt) << line;
  }
}

}  // namespace
}  // namespace lshformer
