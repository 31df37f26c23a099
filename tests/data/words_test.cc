// The streams of a batch for models that read words.
#include "data/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/sequence_set.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using Ids = std::vector<int32_t>;

// Words of two texts: "a bb a", where "a" has id 2, "bb" is unknown; and "cc a", where "cc" is unknown too.
Encoding First() {
  return {.ids = {2, 1, 2}, .type_ids = {}, .offsets = {}, .characters = {5, 6, 6, 5}, .cu_characters = {0, 1, 3, 4}};
}
Encoding Second() {
  return {.ids = {1, 2}, .type_ids = {}, .offsets = {}, .characters = {7, 7, 5}, .cu_characters = {0, 2, 3}};
}

TEST(DistinctWords, NumbersDistinctWordsBehindTheStartWord) {
  DistinctWords table;
  EXPECT_EQ(table.size(), 1);
  EXPECT_EQ(table.id(DistinctWords::kStart), 1);
  EXPECT_THAT(table.characters(DistinctWords::kStart), ElementsAre(1));
  EXPECT_EQ(table.Numbers(First()), (Ids{1, 2, 1}));
  EXPECT_EQ(table.Numbers(Second()), (Ids{3, 1})) << "two unknown words are two, by their characters";
  EXPECT_EQ(table.id(3), 1);
  EXPECT_THAT(table.characters(2), ElementsAre(6, 6));
  EXPECT_THAT(table.characters(3), ElementsAre(7, 7));
}

// Context and question of an example, as words of their texts, from what a batch holds.
Ids WordsOf(const PackedBatch& batch, const TokenStream& stream, int sequence) {
  Ids words;
  for (int32_t i = stream.cu_seqlens[sequence]; i < stream.cu_seqlens[sequence + 1]; ++i)
    words.push_back(batch.further_streams[1].ids[static_cast<size_t>(stream.ids[static_cast<size_t>(i)])]);
  return words;
}

SequenceSet TwoExamples() {
  SequenceSet set;
  const Ids first = set.words().Numbers(First()), second = set.words().Numbers(Second());
  set.AddWords(Ids{0, first[0], first[1], first[2]}, Ids{0, second[0]});
  set.AddWords(Ids{0, second[0], second[1]}, Ids{0, first[1]});
  set.AddSpan(1, 2), set.AddSpan(0, 0);
  return set;
}

TEST(WordBatch, HoldEachDistinctWordOfABatchOnce) {
  const SequenceSet set = TwoExamples();
  const PackedBatch both = MakeBatch(set, std::vector<int64_t>{0, 1});
  ASSERT_EQ(both.further_streams.size(), 3U);
  const TokenStream &question = both.further_streams[0], &words = both.further_streams[1],
                    &characters = both.further_streams[2];
  EXPECT_THAT(both.tokens.cu_seqlens, ElementsAre(0, 4, 7));
  EXPECT_THAT(both.tokens.ids, ElementsAre(0, 1, 2, 1, 0, 3, 1));
  EXPECT_THAT(question.cu_seqlens, ElementsAre(0, 2, 4));
  EXPECT_THAT(question.ids, ElementsAre(0, 3, 0, 2));
  EXPECT_THAT(words.cu_seqlens, ElementsAre(0, 4));
  EXPECT_THAT(words.ids, ElementsAre(1, 2, 1, 1));
  EXPECT_THAT(characters.cu_seqlens, ElementsAre(0, 1, 2, 4, 6));
  EXPECT_THAT(characters.ids, ElementsAre(1, 5, 6, 6, 7, 7));
  EXPECT_THAT(both.labels.start_positions, ElementsAre(1, 0));
}

TEST(WordBatch, AnExampleIsTheSameInAnyBatch) {
  const SequenceSet set = TwoExamples();
  const PackedBatch alone = MakeBatch(set, std::vector<int64_t>{1});
  EXPECT_EQ(alone.further_streams[1].size(), 4) << "start, cc, a, bb";
  EXPECT_EQ(WordsOf(alone, alone.tokens, 0), (Ids{1, 1, 2}));
  EXPECT_EQ(WordsOf(alone, alone.further_streams[0], 0), (Ids{1, 1}));
  EXPECT_EQ(alone.sequence_ids, std::vector<uint64_t>{1});
}

TEST(WordBatch, FollowASetThatIsCut) {
  SequenceSet set = TwoExamples();
  const uint64_t whole = set.Fingerprint();
  EXPECT_EQ(whole, TwoExamples().Fingerprint());
  SequenceSet other = TwoExamples();
  other.words().Number(9, Ids{9});
  EXPECT_NE(other.Fingerprint(), whole) << "the words themselves count";
  const SequenceSet front = set.SplitFront(1);
  EXPECT_EQ(WordsOf(MakeBatch(front, std::vector<int64_t>{0}), MakeBatch(front, std::vector<int64_t>{0}).tokens, 0),
            (Ids{1, 2, 1, 2}));
  const PackedBatch rest = MakeBatch(set, std::vector<int64_t>{0});
  EXPECT_EQ(WordsOf(rest, rest.further_streams[0], 0), (Ids{1, 1}));
  SequenceSet first = TwoExamples();
  first.KeepFirst(1);
  EXPECT_EQ(first.size(), 1);
  EXPECT_EQ(MakeBatch(first, std::vector<int64_t>{0}).further_streams[0].ids, (Ids{0, 3}));
}

}  // namespace
}  // namespace lshformer
