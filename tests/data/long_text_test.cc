// Texts that are longer than a model takes: cut, in windows, or whole.
#include "data/long_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/small_tokenizer.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;

std::string Words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += i % 3 == 0 ? "the " : i % 3 == 1 ? "a " : "of ";
  return text;
}

TEST(EncodeLong, WindowsHoldEveryTokenOnceAndDifferByOneAtMost) {
  const auto tokenizer = SmallTokenizer("the\nof\n");
  for (const int words : {1, 5, 6, 7, 12, 13, 40}) {
    const Encoding whole = tokenizer->Encode(Words(words));
    for (const int64_t lead : {0, 1, 3}) {
      const std::vector<Encoding> windows = EncodeLong(
          *tokenizer, Words(words), {}, {.max_seq_length = 8, .long_text = LongText::kWindows, .lead = lead});
      const size_t begin = static_cast<size_t>(std::max<int64_t>(lead, 1));
      if (whole.ids.size() <= 8) {
        ASSERT_EQ(windows.size(), 1U);
        EXPECT_EQ(windows[0].ids, whole.ids);
        continue;
      }
      const size_t room = 8 - begin - 1, tokens = whole.ids.size() - begin - 1;
      EXPECT_EQ(windows.size(), (tokens + room - 1) / room);
      std::vector<int32_t> joined(whole.ids.begin(), whole.ids.begin() + static_cast<int64_t>(begin));
      for (const Encoding& window : windows) {
        EXPECT_LE(window.ids.size(), 8U);
        EXPECT_GE(window.ids.size() + 1, windows[0].ids.size());
        EXPECT_LE(window.ids.size(), windows[0].ids.size() + 1);
        EXPECT_TRUE(std::equal(whole.ids.begin(), whole.ids.begin() + static_cast<int64_t>(begin), window.ids.begin()));
        EXPECT_EQ(window.ids.back(), whole.ids.back());
        EXPECT_EQ(window.type_ids.size(), window.ids.size());
        joined.insert(joined.end(), window.ids.begin() + static_cast<int64_t>(begin), window.ids.end() - 1);
      }
      joined.push_back(whole.ids.back());
      EXPECT_EQ(joined, whole.ids);
    }
  }
}

TEST(EncodeLong, CutAndWhole) {
  const auto tokenizer = SmallTokenizer("the\nof\n");
  const std::string text = Words(9);
  EXPECT_EQ(EncodeLong(*tokenizer, text, {}, {.max_seq_length = 8})[0].ids.size(), 8U);
  EXPECT_TRUE(EncodeLong(*tokenizer, text, {}, {.max_seq_length = 8})[0].truncated);
  const auto whole = [&](int most) {
    return EncodeLong(*tokenizer, text, {}, {.max_seq_length = most, .long_text = LongText::kWhole});
  };
  EXPECT_EQ(whole(11)[0].ids.size(), 11U);
  EXPECT_THAT(ErrorOf([&] { whole(10); }), HasSubstr("\"text\" has 11 tokens, more than 10 (long_text whole)"));
}

TEST(EncodeLong, WhatHasNoWindowsIsAnError) {
  const auto tokenizer = SmallTokenizer("the\nof\n");
  const TextEncoding how{.max_seq_length = 8, .long_text = LongText::kWindows};
  EXPECT_EQ(EncodeLong(*tokenizer, "the", "a of", how).size(), 1U);  // it fits
  EXPECT_THAT(ErrorOf([&] { EncodeLong(*tokenizer, Words(5), Words(5), how); }), HasSubstr("is for single texts"));
  TextEncoding prompted = how;
  prompted.lead = 7;
  EXPECT_THAT(ErrorOf([&] { EncodeLong(*tokenizer, Words(20), {}, prompted); }),
              HasSubstr("its prompt leaves no room for it in 8 tokens"));
}

TEST(JoinWindows, MeanAndLargest) {
  const std::vector<std::vector<float>> windows{{1, -4}, {2, 6}, {6, 1}};
  EXPECT_EQ(JoinWindows(windows, WindowPooling::kMean), (std::vector<float>{3, 1}));
  EXPECT_EQ(JoinWindows(windows, WindowPooling::kMax), (std::vector<float>{6, 6}));
}

// As if the text had been written so; but a token that is recognised whole stays one.
TEST(EncodeLong, TextsAreLowerCasedButForAddedTokens) {
  const auto tokenizer = SmallTokenizer("the\nof\n");
  const auto ids = [&](const char* text, bool lower) {
    return EncodeLong(*tokenizer, text, {}, {.lower_case = lower})[0].ids;
  };
  EXPECT_EQ(ids("THE [MASK] OF", true), ids("the [MASK] of", false));
}

}  // namespace
}  // namespace lshformer
