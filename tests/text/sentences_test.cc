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

// ICU's rules take a full stop before a small letter for an abbreviation. That is so in text that has capitals too.
TEST(SplitSentences, LowerCasedTextHasSentencesToo) {
  EXPECT_THAT(SplitSentences("it was 3.5 miles. (was it?) yes! \"so.\" said ann.. once"),
              ElementsAre("it was 3.5 miles.", "(was it?)", "yes!", "\"so.\"", "said ann..", "once"));
  EXPECT_THAT(SplitSentences("она шла. он стоял."), ElementsAre("она шла.", "он стоял."));
  EXPECT_THAT(SplitSentences("Seen by him, i.e. not by me."), ElementsAre("Seen by him, i.e. not by me."));
  EXPECT_THAT(SplitSentences("Он видел, т. е. не я."), ElementsAre("Он видел, т. е. не я."));
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
