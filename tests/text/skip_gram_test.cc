#include "text/words/skip_gram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/philox.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;

// Sentences of five words of one of two groups.
std::vector<std::string> TwoGroups(int sentences) {
  const std::vector<std::string> groups[2] = {{"king", "queen", "prince", "crown", "throne", "palace"},
                                              {"apple", "pear", "plum", "cherry", "grape", "orchard"}};
  PhiloxStream random(7);
  std::vector<std::string> texts;
  for (int i = 0; i < sentences; ++i) {
    std::string& text = texts.emplace_back();
    for (int word = 0; word < 5; ++word) text += groups[i % 2][random.Below(6)] + " ";
  }
  return texts;
}

double Cosine(const WordVectors& vectors, size_t a, size_t b) {
  const auto width = static_cast<size_t>(vectors.width);
  double product = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < width; ++i) {
    const double x = vectors.values[a * width + i], y = vectors.values[b * width + i];
    product += x * y, square_a += x * x, square_b += y * y;
  }
  return product / std::sqrt(square_a * square_b);
}

// Small text needs a higher rate; nothing is thinned out, since all words are frequent.
constexpr SkipGramOptions kSmall{.vector_size = 20, .min_count = 1, .epochs = 8, .sample = 0, .learning_rate = 0.1};

TEST(SkipGramTest, WordsOfTheSameGroupAreNearer) {
  SkipGramText text(/*lowercase=*/true);
  text.Add(TwoGroups(2000));
  ASSERT_EQ(text.size(), 10'000);
  const WordVectors vectors = TrainSkipGram(text, kSmall);
  ASSERT_EQ(vectors.words.size(), 12u);
  const auto group = [&](size_t i) {
    const std::string& word = vectors.words[i];
    return word == "king" || word == "queen" || word == "prince" || word == "crown" || word == "throne" ||
           word == "palace";
  };
  double least_inside = 1, most_across = -1;
  for (size_t a = 0; a < 12; ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (group(a) == group(b)) {
        least_inside = std::min(least_inside, Cosine(vectors, a, b));
      } else {
        most_across = std::max(most_across, Cosine(vectors, a, b));
      }
    }
  }
  EXPECT_GT(least_inside, most_across + 0.2);
}

TEST(SkipGramTest, HasTheSameBitsOnAnyNumberOfThreads) {
  const std::vector<std::string> texts = TwoGroups(300);
  const auto train = [&](int threads) {
    SetThreads(threads);
    SkipGramText text(/*lowercase=*/true);
    text.Add(texts);
    SkipGramOptions options = kSmall;
    options.epochs = 2;
    options.sample = 1e-2;
    options.vector_size = 37;  // no multiple of any vector's width
    return TrainSkipGram(text, options);
  };
  const int threads = Threads();
  const WordVectors one = train(1);
  for (const int several : {2, 5}) {
    const WordVectors vectors = train(several);
    EXPECT_EQ(vectors.words, one.words);
    EXPECT_EQ(vectors.values, one.values) << several << " threads";
  }
  SetThreads(threads);
}

TEST(SkipGramTest, TheSeedMatters) {
  SkipGramText text(/*lowercase=*/true);
  text.Add(TwoGroups(50));
  SkipGramOptions options = kSmall;
  const WordVectors first = TrainSkipGram(text, options);
  EXPECT_EQ(TrainSkipGram(text, options).values, first.values);
  options.seed = 43;
  EXPECT_NE(TrainSkipGram(text, options).values, first.values);
}

TEST(SkipGramTest, WordsAreTheFrequentOnesAndTheMostFrequentFirst) {
  SkipGramText text(/*lowercase=*/true), cased(/*lowercase=*/false);
  for (SkipGramText* either : {&text, &cased}) either->Add({"b a", "A a c!", "", "b"});
  EXPECT_EQ(text.size(), 7);
  EXPECT_THAT(text.tokens(), ElementsAre(0, 1, -1, 1, 1, 2, 3, -1, -1, 0, -1));
  SkipGramOptions options = kSmall;
  options.min_count = 2;
  EXPECT_THAT(TrainSkipGram(text, options).words, ElementsAre("a", "b"));
  options.min_count = 1;
  EXPECT_THAT(TrainSkipGram(cased, options).words, ElementsAre("b", "a", "A", "c", "!"));
}

TEST(SkipGramTest, BadOptionsAndTextsAreRefused) {
  SkipGramText text(/*lowercase=*/true);
  text.Add({"a b"});
  const auto error = [&](auto change) {
    SkipGramOptions options = kSmall;
    change(options);
    return ErrorOf([&] { TrainSkipGram(text, options); });
  };
  EXPECT_THAT(error([](auto& o) { o.vector_size = 0; }), HasSubstr("vector_size: expected 1 to 8192, got 0"));
  EXPECT_THAT(error([](auto& o) { o.window = 101; }), HasSubstr("window: expected 1 to 100, got 101"));
  EXPECT_THAT(error([](auto& o) { o.negative = 0; }), HasSubstr("negative: "));
  EXPECT_THAT(error([](auto& o) { o.sample = std::nan(""); }), HasSubstr("sample: expected 0 to 1"));
  EXPECT_THAT(error([](auto& o) { o.learning_rate = 0; }), HasSubstr("learning_rate: "));
  EXPECT_THAT(error([](auto& o) { o.min_count = 2; }),
              HasSubstr("expected two words that occur 2 times (min_count) or more, got 0"));
}

}  // namespace
}  // namespace lshformer
