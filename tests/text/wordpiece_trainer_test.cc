#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "text/tokenizer.h"
#include "text/wordpiece/trainer.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

std::vector<std::string> Train(const std::vector<std::string>& texts, const WordPieceTraining& training) {
  WordCounter counter(training.normalizer);
  counter.Add(texts);
  return TrainWordPiece(counter.counts(), training);
}

TEST(WordCounterTest, CountsWhatTheTokenizerWillSee) {
  WordCounter counter({});
  counter.Add({"The café, the CAFE\u0301!", "日本 " + std::string(101, 'x'), ""});
  EXPECT_EQ(counter.words(), 8);
  EXPECT_EQ(counter.counts().at("the"), 2);
  EXPECT_EQ(counter.counts().at("cafe"), 2);
  EXPECT_EQ(counter.counts().at(","), 1);
  EXPECT_EQ(counter.counts().at("日"), 1);
  EXPECT_EQ(counter.counts().size(), 6u);
}

TEST(WordCounterTest, DropsTheRarestWhenThereAreTooMany) {
  WordCounter counter({}, 10);
  std::vector<std::string> texts;
  for (int i = 0; i < 11; ++i)
    texts.push_back("often w" + std::to_string(i) + (i < 3 ? " twice" + std::to_string(i / 2) : ""));
  counter.Add(texts);
  EXPECT_LE(counter.counts().size(), 5u);
  EXPECT_EQ(counter.counts().at("often"), 11);
}

// Worked by hand: words ab ×5, abc ×3, b ×1. Pieces a ##b (8 pairs), then ab ##c (3).
TEST(WordPieceTrainerTest, MergesTheMostFrequentPairFirst) {
  const std::vector<std::string> texts = {"ab ab ab ab ab abc abc abc b"};
  EXPECT_THAT(Train(texts, {.vocab_size = 100}),
              ElementsAre("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##b", "##c", "ab", "abc"));
  EXPECT_THAT(Train(texts, {.vocab_size = 11}).back(), "ab");
  EXPECT_THAT(Train(texts, {.vocab_size = 100, .min_frequency = 4}).back(), "ab");
}

// All pairs occur twice; the lower ids win: a ##x before a ##y before b ##x.
TEST(WordPieceTrainerTest, TiesGoToTheLowerIds) {
  const auto tokens = Train({"bx ay ax bx ay ax"}, {.vocab_size = 100});
  EXPECT_THAT(std::vector<std::string>(tokens.end() - 3, tokens.end()), ElementsAre("ax", "ay", "bx"));
}

TEST(WordPieceTrainerTest, TheAlphabetKeepsTheMostFrequentCharacters) {
  const auto tokens = Train({"aaa aab aac"}, {.vocab_size = 100, .limit_alphabet = 2});
  EXPECT_THAT(tokens, IsSupersetOf({"a", "b", "##a", "##b"}));
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), "##c"), 0);
}

TEST(WordPieceTrainerTest, DoesNotDependOnThreads) {
  std::vector<std::string> texts;
  for (int i = 0; i < 2000; ++i)
    texts.push_back("word" + std::to_string(i * i % 977) + " hashing of keys " + std::to_string(i));
  const int threads = Threads();
  SetThreads(1);
  const auto one = Train(texts, {.vocab_size = 400});
  SetThreads(4);
  const auto four = Train(texts, {.vocab_size = 400});
  SetThreads(threads);
  EXPECT_EQ(one, four);
  EXPECT_EQ(one.size(), 400u);
}

TEST(WordPieceTrainerTest, ImpossibleRequestsAreErrors) {
  EXPECT_THAT(ErrorOf([] { Train({"ab"}, {.vocab_size = 7}); }), HasSubstr("expected at least 8"));
  EXPECT_THAT(ErrorOf([] { Train({"  "}, {}); }), HasSubstr("expected text with words, got none"));
}

TEST(WordPieceTrainerTest, ATrainedFolderLoads) {
  const testing::TempFolder folder;
  const auto tokens = Train({"Hashing keys, hashing queries, keys."}, {.vocab_size = 60});
  SaveWordPiece(folder.path(), tokens, {});
  const auto tokenizer = Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), static_cast<int32_t>(tokens.size()));
  const Encoding encoding = tokenizer->Encode("HASHING keys");
  EXPECT_EQ(std::count(encoding.ids.begin(), encoding.ids.end(), tokenizer->unk_id()), 0);
  EXPECT_EQ(tokenizer->Decode(encoding.ids, true), "hashing keys");
}

}  // namespace
}  // namespace lshformer
