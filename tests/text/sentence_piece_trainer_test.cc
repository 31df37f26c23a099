#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "text/sentence_piece/sentence_piece.h"
#include "text/sentence_piece/trainer.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

std::vector<std::string> Texts() {
  const std::vector<std::string> words = {"hashing", "keys", "queries", "Attention", "of", "the", "buckets", "Café"};
  std::vector<std::string> texts;
  for (size_t i = 0; i < 2000; ++i) {
    texts.push_back(words[i % 8] + " " + words[i * i % 7] + "s (" + words[i / 5 % 8] + ") " +
                    std::to_string(i * i % 977));
  }
  return texts;
}

std::string Train(const std::vector<std::string>& texts, int32_t vocab_size) {
  SentencePieceSample sample({});
  sample.Add(texts);
  return TrainSentencePiece(sample, vocab_size);
}

TEST(SentencePieceTrainerTest, HasAlbertsPiecesAndLoads) {
  const testing::TempFolder folder;
  SaveSentencePiece(folder.path(), Train(Texts(), 90), {});
  const auto tokenizer = Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), 90);
  const std::vector<std::string> first = {"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")",
                                          "\"",    "-",     ".",     "–",     "£",      "€"};
  for (size_t id = 0; id < first.size(); ++id) EXPECT_EQ(tokenizer->Token(static_cast<int32_t>(id)), first[id]);
  const Encoding encoding = tokenizer->Encode("HASHING keys (cafés)");
  EXPECT_EQ(std::count(encoding.ids.begin(), encoding.ids.end(), tokenizer->unk_id()), 0);
  EXPECT_EQ(tokenizer->Decode(encoding.ids, true), "hashing keys (cafes)");
  EXPECT_GE(tokenizer->Id("▁hashing"), 0);
  EXPECT_EQ(tokenizer->Id("H"), -1);
}

TEST(SentencePieceTrainerTest, DoesNotDependOnThreadsOrOnCalls) {
  const std::vector<std::string> texts = Texts();
  const int threads = Threads();
  SetThreads(1);
  const std::string one = Train(texts, 90);
  SetThreads(4);
  SentencePieceSample in_parts({});
  for (size_t i = 0; i < texts.size(); i += 100)
    in_parts.Add({texts.begin() + static_cast<int64_t>(i), texts.begin() + static_cast<int64_t>(i + 100)});
  const std::string four = TrainSentencePiece(in_parts, 90);
  SetThreads(threads);
  EXPECT_EQ(one, four);
}

TEST(SentencePieceTrainerTest, ImpossibleRequestsAreErrors) {
  EXPECT_THAT(ErrorOf([] { Train(Texts(), 100000); }), HasSubstr("vocab_size: expected at most "));
  EXPECT_THAT(ErrorOf([] { Train(Texts(), 20); }), HasSubstr("vocab_size: expected at least "));
  EXPECT_THAT(ErrorOf([] { Train({}, 20); }), HasSubstr("input: expected text with words, got none"));
  EXPECT_THAT(ErrorOf([] { Train({" ", "", "\u200b", "\x01", "\u2581"}, 20); }), HasSubstr("expected text with words"));
  EXPECT_THAT(ErrorOf([] { Train({"..."}, 100); }), HasSubstr("vocab_size: expected at most "));
}

TEST(SentencePieceSampleTest, LongTextsAreCutAtSpaces) {
  std::string words, word(5000, 'x');
  for (int i = 0; i < 2000; ++i) words += "abc ";
  SentencePieceSample sample({});
  sample.Add({words + word + "é", "short", "  "});
  EXPECT_EQ(sample.seen(), 5);
  size_t bytes = 0;
  for (const std::string& stretch : sample.stretches()) {
    EXPECT_LE(stretch.size(), 4096u);
    bytes += stretch.size();
  }
  EXPECT_EQ(bytes, words.size() + word.size() + 1 + 5);  // the accent goes
}

TEST(SentencePieceSampleTest, OfMuchTextAnEvenShareIsKept) {
  std::vector<std::string> texts;
  for (int i = 0; i < 8000; ++i) texts.push_back("number " + std::to_string(10000 + i));  // 12 bytes each
  SentencePieceSample sample({}, 24000), in_two({}, 24000);
  sample.Add(texts);
  in_two.Add({texts.begin(), texts.begin() + 3000});
  in_two.Add({texts.begin() + 3000, texts.end()});
  EXPECT_EQ(sample.stretches(), in_two.stretches());
  EXPECT_EQ(sample.seen(), 8000);
  EXPECT_LE(sample.stretches().size(), 2000u);
  EXPECT_GE(sample.stretches().size(), 850u);
  const auto early = std::count_if(sample.stretches().begin(), sample.stretches().end(),
                                   [](const std::string& text) { return text < "number 14000"; });
  // Five standard deviations of a fair coin.
  EXPECT_NEAR(static_cast<double>(early), static_cast<double>(sample.stretches().size()) / 2, 112);
}

}  // namespace
}  // namespace lshformer
