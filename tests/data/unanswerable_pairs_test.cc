#include "data/unanswerable_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two articles of four and three paragraphs, two questions each; the answers to those of paragraph 0 stand in paragraph
// 1 too. Paragraph 2 has no question but one without an answer.
SquadData Data() {
  SquadData data{"train.json", {"red one", "red two", "three", "four", "red five", "six", "seven"}, {}};
  data.articles = {0, 0, 0, 0, 3, 3, 3};
  for (const int32_t context : {0, 1, 3, 4, 5, 6}) {
    const std::string& text = data.contexts[static_cast<size_t>(context)];
    const std::string answer = text.substr(0, text.find(' '));
    for (const char* part : {"a", "b"})
      data.questions.push_back({std::to_string(context) + part, "Which?", context, {{answer, 0}}});
  }
  data.questions.insert(data.questions.begin() + 4, {"2", "What?", 2, {}});
  return data;
}

TEST(AddUnanswerablePairs, AsksAnotherParagraphOfTheArticle) {
  const SquadData before = Data();
  std::map<std::string, std::set<int32_t>> asked;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SquadData data = before;
    EXPECT_EQ(AddUnanswerablePairs(data, 1, seed, 0), 0);
    ASSERT_THAT(data.questions, SizeIs(25)) << "every question with an answer once more";
    EXPECT_TRUE(std::is_sorted(data.questions.begin(), data.questions.end(),
                               [](const auto& a, const auto& b) { return a.context < b.context; }));
    std::vector<std::string> old;
    for (const SquadQuestion& question : data.questions) {
      const size_t end = question.id.find(" (no answer)");
      if (end == std::string::npos) {
        old.push_back(question.id);
        continue;
      }
      EXPECT_EQ(question.text, "Which?");
      EXPECT_THAT(question.answers, IsEmpty());
      asked[question.id.substr(0, end)].insert(question.context);
    }
    std::vector<std::string> want;
    for (const SquadQuestion& question : before.questions) want.push_back(question.id);
    EXPECT_EQ(old, want) << "the old ones as they were";
  }
  EXPECT_THAT(asked, SizeIs(12));
  for (const char* part : {"a", "b"}) {
    const std::string p = part;
    EXPECT_THAT(asked["0" + p], ElementsAre(2, 3)) << "not 1, which has the answer";
    EXPECT_THAT(asked["1" + p], ElementsAre(2, 3));
    EXPECT_THAT(asked["3" + p], ElementsAre(0, 1, 2));
    EXPECT_THAT(asked["4" + p], ElementsAre(5, 6)) << "of its own article alone";
    EXPECT_THAT(asked["6" + p], ElementsAre(4, 5));
  }
}

TEST(AddUnanswerablePairs, TakesThatShareAndFollowsFromTheSeed) {
  SquadData large{"train.json", {"x", "y"}, {}};
  large.articles = {0, 0};
  for (int i = 0; i < 4000; ++i) large.questions.push_back({std::to_string(i), "?", 0, {{"x", 0}}});
  large.questions.push_back({"last", "?", 1, {{"y", 0}}});
  const auto made = [&](double share, uint64_t seed, uint64_t file) {
    SquadData data = large;
    EXPECT_EQ(AddUnanswerablePairs(data, share, seed, file), 0);
    std::vector<std::string> ids;
    for (const SquadQuestion& question : data.questions)
      if (question.answers.empty()) ids.push_back(question.id);
    return ids;
  };
  EXPECT_THAT(made(0, 1, 0), IsEmpty());
  const auto some = made(0.3, 1, 0);
  EXPECT_NEAR(static_cast<double>(some.size()), 1200, 4 * std::sqrt(4000 * 0.3 * 0.7));
  EXPECT_EQ(made(0.3, 1, 0), some);
  EXPECT_NE(made(0.3, 2, 0), some);
  EXPECT_NE(made(0.3, 1, 1), some);
}

TEST(AddUnanswerablePairs, CountsThoseForWhichThereIsNoParagraph) {
  SquadData data{"train.json", {"red", "red too", "not asked about"}, {{"q", "?", 0, {{"red", 0}}}}};
  data.articles = {0, 0, 0};
  data.questions.push_back({"r", "?", 1, {{"blue", 0}, {"re", 0}}});
  EXPECT_EQ(AddUnanswerablePairs(data, 1, 7, 0), 2);
  EXPECT_THAT(data.questions, SizeIs(2));
}

}  // namespace
}  // namespace lshformer
