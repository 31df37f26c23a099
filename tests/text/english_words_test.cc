#include "text/words/english_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "text/code_points.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  SplitEnglish(text, 0, [&](const EnglishWord& word) {
    std::string& spelled = words.emplace_back();
    for (const char32_t c : word.text) AppendUtf8(c, spelled);
    return true;
  });
  return words;
}

std::string Joined(std::string_view text) {
  std::string joined;
  for (const std::string& word : Words(text)) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

// What spacy.blank("en") of spaCy 3.8 gives (white space left out), the text joined by spaces.
TEST(EnglishWordsTest, SplitsAsSpacy) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {" \t\n\u00a0 ", ""},
      {"I don't know; it's can't, won't.", "I do n't know ; it 's ca n't , wo n't ."},
      {"don’t they’ve", "do n’t they ’ve"},
      {"John's dogs' James’s", "John 's dogs ' James ’s"},
      {"We're well, we'll see the shell; were it Ill.", "We 're well , we 'll see the shell ; were it Ill."},
      {"cannot gonna let's y'all o'clock ma'am", "can not gon na let 's y' all o'clock ma'am"},
      {"Mr. Smith of the U.S. and Washington, D.C., e.g. i.e. etc.",
       "Mr. Smith of the U.S. and Washington , D.C. , e.g. i.e. etc ."},
      {"J. K. Rowling, NASA. USA. x. end.", "J. K. Rowling , NASA . USA . x. end ."},
      {"at 10am or 5 p.m.", "at 10 am or 5 p.m."},
      {"$1,000.50 US$5 £3 5€ 50% +5 + 5", "$ 1,000.50 US$ 5 £ 3 5 € 50 % +5 + 5"},
      {"10km 5.5kg 20°C. 3GB 7ms", "10 km 5.5 kg 20 ° C . 3 GB 7ms"},
      {"wait... what…no ....", "wait ... what … no ...."},
      {"well-known 1990-1995 1990–1995 ex-president -5 mid-1990s",
       "well - known 1990 - 1995 1990–1995 ex - president "
       "-5 mid-1990s"},
      {"a--b and a — b or a—b", "a -- b and a — b or a — b"},
      {"either/or and/or 1/2 a:b 10:30", "either / or and/or 1/2 a : b 10:30"},
      {"one,two 1,2 end.Start end.start 3.14", "one , two 1,2 end . Start end.start 3.14"},
      {"(\"Quoted,\" he said.)", "( \" Quoted , \" he said . )"},
      {"``Quoted'' text", "\" Quoted \" text"},
      {"[1] <tag> #5 *x* _y_ &", "[ 1 ] < tag > # 5 * x * _ y _ &"},
      {"see http://www.example.com/a-b?x=1, or name@example.com.",
       "see http://www.example.com/a-b?x=1 , or name@example.com ."},
      {"(figure 8) :-) (a:)", "( figure 8) :-) ( a :)"},
      {"😀😀 a😀b ©2020", "😀 😀 a 😀 b © 2020"},
      {"東京。大阪、", "東京。大阪 、"},
      {"2^10 3*4 5-6 7+8", "2 ^ 10 3 * 4 5 - 6 7 + 8"},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(Joined(text), words) << text;
}

TEST(EnglishWordsTest, PlacesAreCodePointsOfTheText) {
  std::vector<std::pair<int32_t, int32_t>> places;
  SplitEnglish("Café,  naı̈ve 😀''x", 10, [&](const EnglishWord& word) {
    places.emplace_back(word.begin, word.end);
    return true;
  });
  using ::testing::Pair;
  EXPECT_THAT(places, ElementsAre(Pair(10, 14), Pair(14, 15), Pair(17, 23), Pair(24, 25), Pair(25, 27), Pair(27, 28)));
}

TEST(EnglishWordsTest, DoubledQuotesStandForOneCharacter) {
  EXPECT_THAT(Words("'''a'''"), ElementsAre("\"", "'", "a", "\"", "'"));
  EXPECT_THAT(Words("````"), ElementsAre("\"", "\""));
  EXPECT_THAT(Words("a''b"), ElementsAre("a", "\"", "b"));
}

TEST(EnglishWordsTest, StopsWhereTheSinkHasEnough) {
  int words = 0;
  EXPECT_FALSE(SplitEnglish("a b c", 0, [&](const EnglishWord&) { return ++words < 2; }));
  EXPECT_EQ(words, 2);
}

// Chunks at which a splitter goes quadratic, which takes minutes.
TEST(EnglishWordsTest, TimeIsLinear) {
  const auto repeated = [](const char* part) {
    std::string text;
    while (text.size() < 200'000) text += part;
    return text;
  };
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Words(std::string(200'000, 'x')).size(), 1u);
  EXPECT_EQ(Words(std::string(200'000, '(')).size(), 200'000u);
  EXPECT_EQ(Words(std::string(200'000, '.')).size(), 1u);
  EXPECT_EQ(Words(std::string(200'000, '-')).size(), 1u);
  for (const char* part : {"a.", "a@", "a-", "://", "a.b/", ".,", "'s", ":)", "1%"})
    EXPECT_FALSE(Words(repeated(part)).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace lshformer
