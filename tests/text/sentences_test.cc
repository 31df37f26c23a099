#include "text/sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitSentences, EndAtFullStopsNotInNumbers) {
  EXPECT_THAT(SplitSentences("It was 3.5 miles. (Was it?) Yes!\tÉté… said Ann."),
              ElementsAre("It was 3.5 miles.", "(Was it?)", "Yes!", "Été… said Ann."));
  EXPECT_THAT(SplitSentences("今日は。明日は？"), ElementsAre("今日は。", "明日は？"));
  EXPECT_THAT(SplitSentences("no end"), ElementsAre("no end"));
  EXPECT_THAT(SplitSentences(""), IsEmpty());
  EXPECT_THAT(SplitSentences(" \t "), IsEmpty());
}

// Whatever the text, nothing but white space is lost and the pieces are in order.
TEST(SplitSentences, LosesNothing) {
  const std::string text = "a. b! c?? “d.” e… 1.2.3 Mr. F. went (so I heard.) home.\n\nEND 🙂. x";
  const auto letters = [](std::string_view part) {
    std::string kept;
    for (const char c : part) {
      if (c != ' ' && c != '\n') kept += c;
    }
    return kept;
  };
  std::string joined;
  const char* last = text.data();
  for (const std::string_view sentence : SplitSentences(text)) {
    EXPECT_GE(sentence.data(), last);
    last = sentence.data() + sentence.size();
    joined += letters(sentence);
  }
  EXPECT_EQ(joined, letters(text));
}

}  // namespace
}  // namespace lshformer
