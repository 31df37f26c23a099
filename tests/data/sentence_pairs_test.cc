#include "data/sentence_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "data/small_tokenizer.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;
using testing::TempFolder;

constexpr int32_t kCls = 2, kSep = 3;

// Document d, sentence s is tokens d·1000 + s, each `length` times: a token says where it is from.
SentenceCorpus Numbered(const std::vector<std::vector<int>>& lengths) {
  SentenceCorpus corpus;
  for (size_t d = 0; d < lengths.size(); ++d) {
    for (size_t s = 0; s < lengths[d].size(); ++s)
      corpus.sentences.Add(
          std::vector<int32_t>(static_cast<size_t>(lengths[d][s]), static_cast<int32_t>(1000 * (d + 1) + s)));
    corpus.documents.push_back(corpus.sentences.size());
  }
  return corpus;
}

struct Pair {
  std::vector<int32_t> first, second;
  int32_t label;
};

std::vector<Pair> PairsOf(const SequenceSet& set) {
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < set.size(); ++i) {
    const auto ids = set.ids(i);
    const std::vector<int32_t> types = set.type_ids(i);
    const auto middle = static_cast<size_t>(std::find(ids.begin(), ids.end(), kSep) - ids.begin());
    EXPECT_EQ(ids.front(), kCls);
    EXPECT_EQ(ids.back(), kSep);
    for (size_t t = 0; t < types.size(); ++t) EXPECT_EQ(types[t], t <= middle ? 0 : 1);
    pairs.push_back({{ids.begin() + 1, ids.begin() + static_cast<int64_t>(middle)},
                     {ids.begin() + static_cast<int64_t>(middle) + 1, ids.end() - 1},
                     set.label(i)});
  }
  return pairs;
}

std::vector<Pair> Make(const SentenceCorpus& corpus, const SentencePairOptions& options) {
  return PairsOf(MakeSentencePairs(corpus, *SmallTokenizer(), options).set);
}

TEST(SentencePairs, NextFollowsAndRandomIsFromElsewhere) {
  std::vector<std::vector<int>> lengths;
  for (int d = 0; d < 200; ++d) lengths.push_back(std::vector<int>(static_cast<size_t>(3 + d % 20), 2 + d % 9));
  const std::vector<Pair> pairs = Make(Numbered(lengths), {.max_seq_length = 40});
  int64_t random = 0;
  for (const Pair& pair : pairs) {
    ASSERT_FALSE(pair.first.empty());
    ASSERT_FALSE(pair.second.empty());
    EXPECT_LE(pair.first.size() + pair.second.size() + 3, 40u);
    random += pair.label;
    const int32_t document = pair.first.front() / 1000;
    EXPECT_TRUE(std::is_sorted(pair.first.begin(), pair.first.end()));
    for (const int32_t token : pair.first) EXPECT_EQ(token / 1000, document);
    for (const int32_t token : pair.second) EXPECT_EQ(token / 1000 != document, pair.label == 1);
    // What follows: the sentence after A's last one, or the same chunk cut by the limit.
    if (pair.label == 0) {
      EXPECT_LE(pair.second.front() - pair.first.back(), 2);
      EXPECT_GT(pair.second.front(), pair.first.back());
    }
  }
  // Chunks of several sentences are random half the time; those of one always.
  const double share = static_cast<double>(random) / static_cast<double>(pairs.size());
  EXPECT_GT(share, 0.45);
  EXPECT_LT(share, 0.75);
}

// The chunk's sentences behind a random B are used again: every sentence of a document is in some A or in a B that
// follows.
TEST(SentencePairs, NoSentenceIsLost) {
  std::vector<std::vector<int>> lengths(12, std::vector<int>(30, 3));
  const std::vector<Pair> pairs = Make(Numbered(lengths), {.max_seq_length = 203, .short_seq_prob = 0});
  std::set<int32_t> seen;
  for (const Pair& pair : pairs) {
    seen.insert(pair.first.begin(), pair.first.end());
    if (pair.label == 0) seen.insert(pair.second.begin(), pair.second.end());
  }
  EXPECT_EQ(seen.size(), 12u * 30u);
}

// Swapped or not, the two are all of a chunk: what follows in the text, whatever the label.
TEST(SentencePairs, OrderedPairsAreConsecutiveAndHalfOfThemSwapped) {
  constexpr int kDocuments = 400;
  const SentenceCorpus corpus = Numbered(std::vector<std::vector<int>>(kDocuments, std::vector<int>(60, 3)));
  const SentencePairs made = MakeSentencePairs(
      corpus, *SmallTokenizer(), {.kind = PairKind::kSentenceOrder, .max_seq_length = 43, .short_seq_prob = 0});
  EXPECT_EQ(made.single_sentences, 0);
  std::map<int32_t, int> times;  // that a sentence is in a pair
  double swapped = 0;
  for (const Pair& pair : PairsOf(made.set)) {
    const std::vector<int32_t>&before = pair.label == 1 ? pair.second : pair.first,
          &after = pair.label == 1 ? pair.first : pair.second;
    EXPECT_TRUE(std::is_sorted(before.begin(), before.end()) && std::is_sorted(after.begin(), after.end()));
    EXPECT_EQ(after.front(), before.back() + 1);  // so both are of one document
    for (const std::vector<int32_t>* half : {&before, &after})
      for (const int32_t sentence : std::set<int32_t>(half->begin(), half->end())) ++times[sentence];
    swapped += pair.label;
  }
  EXPECT_EQ(times.size(), kDocuments * 60u);  // a chunk of 14 sentences is 42 tokens, which loses two: no sentence
  for (const auto& [sentence, number] : times) EXPECT_EQ(number, 1) << sentence;
  const auto pairs = static_cast<double>(made.set.size());
  EXPECT_EQ(pairs, kDocuments * 5);  // 14 · 4 + 4 sentences
  EXPECT_NEAR(swapped / pairs, 0.5, 4 * std::sqrt(0.25 / pairs));
}

// As ALBERT's script does where a chunk has nothing to swap.
TEST(SentencePairs, OfOneSentenceTheSecondIsFromElsewhereEvenInOrder) {
  std::vector<std::vector<int>> lengths;
  for (int d = 0; d < 60; ++d) lengths.push_back(d % 3 == 0 ? std::vector<int>{50, 7} : std::vector<int>{5, 5, 5});
  const SentencePairs made = MakeSentencePairs(
      Numbered(lengths), *SmallTokenizer(),
      {.kind = PairKind::kSentenceOrder, .max_seq_length = 43, .short_seq_prob = 0, .dupe_factor = 3});
  EXPECT_EQ(made.single_sentences, 3 * 20 * 2);  // the long sentence, and the one behind it
  int64_t elsewhere = 0;
  for (const Pair& pair : PairsOf(made.set)) {
    const bool single = (pair.first.front() / 1000 - 1) % 3 == 0;
    elsewhere += single;
    EXPECT_TRUE(!single || pair.label == 1);
    EXPECT_EQ(pair.first.front() / 1000 != pair.second.front() / 1000, single);
  }
  EXPECT_EQ(elsewhere, made.single_sentences);
}

TEST(SentencePairs, LongSentencesLoseTokensAtBothEnds) {
  SentenceCorpus corpus;
  std::vector<int32_t> rising(500);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<int32_t>(100 + i);
  for (int d = 0; d < 40; ++d) {
    corpus.sentences.Add(rising);
    corpus.documents.push_back(d + 1);
  }
  double front = 0;
  for (const Pair& pair : Make(corpus, {.max_seq_length = 103, .short_seq_prob = 0})) {
    EXPECT_EQ(pair.label, 1);  // one sentence: nothing follows
    EXPECT_EQ(pair.first.size(), 50u);
    EXPECT_EQ(pair.second.size(), 50u);
    EXPECT_TRUE(std::is_sorted(pair.first.begin(), pair.first.end()));
    EXPECT_EQ(pair.first.back() - pair.first.front(), 49);
    front += static_cast<double>(pair.first.front() - 100) / 450 / 40;
  }
  EXPECT_NEAR(front, 0.5, 0.05);  // 40 · 450 coins
}

TEST(SentencePairs, ShortTargetsHaveTheirShare) {
  constexpr int kDocuments = 1000;
  const SentenceCorpus words = Numbered(std::vector<std::vector<int>>(kDocuments, std::vector<int>(500, 1)));
  std::map<int32_t, size_t> longest;  // pair of a document
  for (const Pair& pair : Make(words, {.max_seq_length = 128, .short_seq_prob = 0.1})) {
    size_t& most = longest[pair.first.front() / 1000];
    most = std::max(most, pair.first.size() + pair.second.size());
  }
  int short_ones = 0;
  for (const auto& [document, most] : longest) short_ones += most < 125;
  EXPECT_EQ(longest.size(), static_cast<size_t>(kDocuments));
  EXPECT_NEAR(static_cast<double>(short_ones) / kDocuments, 0.1, 0.03);  // three standard deviations
}

TEST(SentencePairs, APureFunctionOfTheSeed) {
  const SentenceCorpus corpus = Numbered(std::vector<std::vector<int>>(30, std::vector<int>(12, 5)));
  const auto tokenizer = SmallTokenizer();
  const auto print = [&](const SentencePairOptions& options) {
    return MakeSentencePairs(corpus, *tokenizer, options).set.Fingerprint();
  };
  EXPECT_EQ(print({.max_seq_length = 40}), print({.max_seq_length = 40}));
  EXPECT_NE(print({.max_seq_length = 40}), print({.max_seq_length = 40, .seed = 43}));
  EXPECT_NE(print({.max_seq_length = 40}), print({.kind = PairKind::kSentenceOrder, .max_seq_length = 40}));
  const SequenceSet once = MakeSentencePairs(corpus, *tokenizer, {.max_seq_length = 40}).set;
  SequenceSet twice = MakeSentencePairs(corpus, *tokenizer, {.max_seq_length = 40, .dupe_factor = 2}).set;
  EXPECT_GT(twice.size(), once.size());
  SequenceSet front = twice.SplitFront(once.size());
  EXPECT_EQ(front.Fingerprint(), once.Fingerprint());  // the first pass is the same
  EXPECT_NE(twice.Fingerprint(), once.Fingerprint());  // the second is not
}

TEST(ReadSentences, FilesParagraphsAndRowsAreDocuments) {
  const auto tokenizer = SmallTokenizer();
  TempFolder folder;
  const std::string one = folder.Write("one.txt", "A b. C\nd.\n\nE. \x01\n"), two = folder.Write("two.txt", "F."),
                    rows = folder.Write("rows.jsonl", "{\"text\": \"G. H.\"}\n{\"text\": \"I.\"}\n");
  const SentenceCorpus files = ReadSentences({one, two}, *tokenizer);
  EXPECT_THAT(files.documents, ElementsAre(0, 3, 4));  // "A b.", "C d.", "E." | "F."
  EXPECT_THAT(files.sentences.ids(1), ElementsAre(tokenizer->Id("c"), tokenizer->Id("d"), tokenizer->unk_id()));
  EXPECT_THAT(ReadSentences({one}, *tokenizer).documents, ElementsAre(0, 2, 3));  // paragraphs
  EXPECT_THAT(ReadSentences({rows}, *tokenizer).documents, ElementsAre(0, 2, 3));
  EXPECT_THAT(ErrorOf([&] { ReadSentences({two}, *tokenizer); }), HasSubstr("need at least two documents"));
  EXPECT_THAT(ErrorOf([&] {
                ReadSentences({one, folder.Write("blank.txt", "\n")}, *tokenizer);
              }),
              HasSubstr("blank.txt: holds no text"));
  EXPECT_THAT(ErrorOf([&] { MakeSentencePairs(files, *tokenizer, {.max_seq_length = 4}); }),
              HasSubstr("max_seq_length: expected at least 5"));
}

}  // namespace
}  // namespace lshformer
