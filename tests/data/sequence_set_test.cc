#include "data/sequence_set.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/philox.h"
#include "data/file_kind.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;

std::vector<int32_t> Copy(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

SequenceSet RandomSet(int64_t in_memory, int examples) {
  SequenceSet set(in_memory);
  PhiloxStream random(1);
  for (int i = 0; i < examples; ++i) {
    std::vector<int32_t> ids(random.Below(30)), types(ids.size());
    for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(1000));
    for (size_t t = 0; t < types.size(); ++t) types[t] = t * 2 >= types.size();
    set.Add(ids, types);
    set.AddLabel(i % 3);
  }
  return set;
}

// Ids in a mapped file are the ids in memory.
TEST(SequenceSet, SpillingChangesNothing) {
  const SequenceSet memory = RandomSet(SequenceSet::kInMemory, 2000);
  for (const int64_t limit : {0, 1, 100, 5000}) {
    const SequenceSet spilled = RandomSet(limit, 2000);
    ASSERT_EQ(spilled.size(), memory.size());
    EXPECT_EQ(spilled.tokens(), memory.tokens());
    EXPECT_EQ(spilled.max_length(), memory.max_length());
    for (int64_t i = 0; i < memory.size(); ++i) {
      ASSERT_EQ(Copy(spilled.ids(i)), Copy(memory.ids(i))) << "example " << i << ", limit " << limit;
      ASSERT_EQ(spilled.type_ids(i), memory.type_ids(i));
    }
  }
}

TEST(SequenceSet, NamesTheFolderItCannotSpillTo) {
  setenv("TMPDIR", "/nonexistent", 1);
  const std::string error = ErrorOf([] { RandomSet(0, 3); });
  unsetenv("TMPDIR");
  EXPECT_THAT(error, HasSubstr("/nonexistent: no temporary file for token ids: No such file or directory"));
}

TEST(SequenceSet, SplitFrontKeepsEverythingInPlace) {
  const SequenceSet whole = RandomSet(10, 100);
  SequenceSet rest = RandomSet(10, 100);
  const SequenceSet front = rest.SplitFront(30);
  ASSERT_EQ(front.size(), 30);
  ASSERT_EQ(rest.size(), 70);
  EXPECT_EQ(front.tokens() + rest.tokens(), whole.tokens());
  for (int64_t i = 0; i < 100; ++i) {
    const SequenceSet& part = i < 30 ? front : rest;
    const int64_t at = i < 30 ? i : i - 30;
    EXPECT_EQ(Copy(part.ids(at)), Copy(whole.ids(i)));
    EXPECT_EQ(part.type_ids(at), whole.type_ids(i));
    EXPECT_EQ(part.label(at), whole.label(i));
  }
}

TEST(SequenceSet, KeepFirst) {
  SequenceSet set = RandomSet(SequenceSet::kInMemory, 10);
  const std::vector<int32_t> third = Copy(set.ids(2));
  set.KeepFirst(50);
  set.KeepFirst(0);
  EXPECT_EQ(set.size(), 10);
  set.KeepFirst(3);
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(Copy(set.ids(2)), third);
  EXPECT_THAT(set.labels(), ElementsAre(0, 1, 2));
}

TEST(Batch, PacksInTheOrderAskedFor) {
  SequenceSet set;
  set.Add(std::vector<int32_t>{2, 5, 3}, std::vector<int32_t>{0, 0, 1});
  set.Add(std::vector<int32_t>{});
  set.Add(std::vector<int32_t>{2, 7, 8, 3});
  for (const int32_t label : {1, 0, 1}) set.AddLabel(label);
  const std::vector<int64_t> order{2, 1, 0};
  const PackedBatch batch = MakeBatch(set, order);
  EXPECT_THAT(batch.tokens.ids, ElementsAre(2, 7, 8, 3, 2, 5, 3));
  EXPECT_THAT(batch.tokens.type_ids, ElementsAre(0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(batch.tokens.positions, ElementsAre(0, 1, 2, 3, 0, 1, 2));
  EXPECT_THAT(batch.tokens.cu_seqlens, ElementsAre(0, 4, 4, 7));
  EXPECT_THAT(batch.sequence_ids, ElementsAre(2u, 1u, 0u));
  EXPECT_THAT(batch.labels.classes, ElementsAre(1, 0, 1));
  EXPECT_EQ(batch.tokens.max_seqlen, 4);
  EXPECT_TRUE(batch.labels.tokens.empty());
}

TEST(SequenceSet, ValuesFollowTheirExamples) {
  SequenceSet set = RandomSet(SequenceSet::kInMemory, 6), other = RandomSet(SequenceSet::kInMemory, 6);
  for (int i = 0; i < 6; ++i) {
    set.AddValue(0.5f * static_cast<float>(i));
    other.AddValue(i == 5 ? -1 : 0.5f * static_cast<float>(i));
  }
  EXPECT_NE(set.Fingerprint(), other.Fingerprint());
  SequenceSet front = set.SplitFront(2);
  EXPECT_THAT(front.values(), ElementsAre(0, 0.5));
  set.KeepFirst(3);
  EXPECT_THAT(set.values(), ElementsAre(1, 1.5, 2));
  const std::vector<int64_t> order{2, 0};
  EXPECT_THAT(MakeBatch(set, order).labels.values, ElementsAre(2, 1));
}

TEST(Batch, RefusesTypesOfAnotherLength) {
  PackedBatch batch;
  EXPECT_THAT(ErrorOf([&] {
                AppendSequence(batch, {1, 2}, {0}, 9);
              }),
              HasSubstr("sequence 9: 1 type ids for 2 token ids"));
}

TEST(FileKind, TakesTheExtensionBelowGz) {
  EXPECT_EQ(DataExtension("a/b.d/Train.TSV.gz"), "tsv");
  EXPECT_EQ(DataExtension("a/b.d/train"), "");
  EXPECT_EQ(DataExtension("x.jsonl"), "jsonl");
  EXPECT_TRUE(IsJsonLines("x.json.GZ"));
  EXPECT_FALSE(IsJsonLines("json"));
}

// Example i: 2 + i % 3 options of different lengths, the right one is i % 2.
SequenceSet ChoiceSet(int examples) {
  SequenceSet set;
  for (int i = 0; i < examples; ++i) {
    std::vector<Encoding> options;
    for (int o = 0; o < 2 + i % 3; ++o) {
      options.push_back({std::vector<int32_t>(static_cast<size_t>(1 + (i + o) % 4), 100 * i + o), {}, {}, false});
      options.back().type_ids.assign(options.back().ids.size(), o % 2);
    }
    set.AddChoices(options);
    set.AddLabel(i % 2);
  }
  return set;
}

// An example's options stay together and in order, whatever is chosen, kept or split off.
TEST(SequenceSet, OptionsStayTogether) {
  const auto check = [](const SequenceSet& set, int64_t example, int number) {
    const std::vector<int64_t> chosen{example};
    const PackedBatch batch = MakeBatch(set, chosen);
    ASSERT_EQ(batch.sequences(), 2 + number % 3);
    EXPECT_EQ(batch.examples(), 1);
    EXPECT_THAT(batch.labels.cu_choices, ElementsAre(0, batch.sequences()));
    EXPECT_THAT(batch.labels.classes, ElementsAre(number % 2));
    EXPECT_EQ(set.TokensOf(example), batch.tokens.size());
    for (int o = 0; o < batch.sequences(); ++o) {
      EXPECT_EQ(batch.tokens.ids[static_cast<size_t>(batch.tokens.cu_seqlens[o])], 100 * number + o);
      EXPECT_EQ(batch.tokens.type_ids[static_cast<size_t>(batch.tokens.cu_seqlens[o])], o % 2);
    }
  };
  SequenceSet set = ChoiceSet(10);
  EXPECT_EQ(set.size(), 10);
  EXPECT_EQ(set.sequences(), 29);
  set.KeepFirst(9);
  EXPECT_EQ(set.size(), 9);
  EXPECT_EQ(set.sequences(), 27);
  const SequenceSet front = set.SplitFront(4);
  ASSERT_EQ(front.size(), 4);
  ASSERT_EQ(set.size(), 5);
  for (int i = 0; i < 4; ++i) check(front, i, i);
  for (int i = 0; i < 5; ++i) check(set, i, i + 4);
  const std::vector<int64_t> two{3, 1};
  const PackedBatch batch = MakeBatch(set, two);  // examples 7 and 5
  EXPECT_THAT(batch.labels.cu_choices, ElementsAre(0, 3, 7));
  EXPECT_THAT(batch.labels.classes, ElementsAre(1, 1));
  EXPECT_EQ(batch.examples(), 2);
  for (size_t b = 1; b < batch.sequence_ids.size(); ++b)
    EXPECT_NE(batch.sequence_ids[b], batch.sequence_ids[b - 1]) << "options draw dropout of their own";
}

TEST(SequenceSet, FingerprintKnowsWhichOptionsBelongTogether) {
  const auto made = [](std::initializer_list<int> counts) {
    SequenceSet set;
    for (const int count : counts) {
      set.AddChoices(std::vector<Encoding>(static_cast<size_t>(count), {{7}, {0}, {}, false}));
      set.AddLabel(0);
    }
    return set.Fingerprint();
  };
  EXPECT_EQ(made({2, 3}), made({2, 3}));
  EXPECT_NE(made({2, 3}), made({3, 2}));
}

}  // namespace
}  // namespace lshformer
