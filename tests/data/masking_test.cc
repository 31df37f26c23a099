#include "data/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/philox.h"
#include "data/sequence_set.h"
#include "data/small_tokenizer.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;

struct Masked {
  std::vector<int32_t> ids, labels;
};

Masked MaskOf(const Masker& masker, std::vector<int32_t> ids, uint64_t visit, uint64_t example) {
  std::vector<int32_t> labels(ids.size(), 7);
  masker.Mask(visit, example, ids, labels);
  return {ids, labels};
}

std::vector<int32_t> LongText(int length, int32_t vocab_size) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) ids[i] = 5 + i % (vocab_size - 5);
  return ids;
}

// Five standard deviations of a binomial share.
double Spread(double p, double n) { return 5 * std::sqrt(p * (1 - p) / n); }

TEST(Masking, AFixedNumberASequence) {
  const auto tokenizer = SmallTokenizer();
  const Masker masker(*tokenizer, 0.15, 42, {.max_predictions = 20});
  // Rounded to even: 0.15 · 10 = 1.5 → 2, 0.15 · 30 = 4.5 → 4; at least one, at most twenty.
  for (const auto& [length, number] :
       std::vector<std::pair<int, int64_t>>{{1, 1}, {3, 1}, {10, 2}, {30, 4}, {100, 15}, {512, 20}}) {
    const std::vector<int32_t> text = LongText(length, tokenizer->vocab_size());
    std::vector<int> chosen(text.size());
    for (uint64_t example = 0; example < 300; ++example) {
      const Masked masked = MaskOf(masker, text, 0, example);
      int64_t count = 0;
      for (size_t i = 0; i < text.size(); ++i) {
        count += masked.labels[i] != kIgnoredLabel;
        chosen[i] += masked.labels[i] != kIgnoredLabel;
        EXPECT_TRUE(masked.labels[i] == text[i] || (masked.labels[i] == kIgnoredLabel && masked.ids[i] == text[i]));
      }
      ASSERT_EQ(count, number) << length;
    }
    const double p = static_cast<double>(number) / length;
    for (const int times : chosen) EXPECT_NEAR(times / 300.0, p, Spread(p, 300) + 1e-9) << length;
  }
}

TEST(Masking, WholeWordsAllOrNone) {
  const auto tokenizer = SmallTokenizer();
  const auto id = [&](const char* token) { return tokenizer->Id(token); };
  const std::vector<int32_t> text{
      tokenizer->cls_id(), id("a"),   id("##b"), id("##c"),          id("d"), id("e"), id("##f"),
      tokenizer->sep_id(), id("##g"), id("h"),   tokenizer->sep_id()};
  const std::vector<std::vector<size_t>> words{{1, 2, 3}, {4}, {5, 6}, {8}, {9}};
  const Masker masker(*tokenizer, 0.3, 42, {.unit = MaskedUnit::kWholeWord});  // 0.3 · 11 = 3.3 → 3 tokens
  std::vector<int> chosen(words.size());
  for (uint64_t example = 0; example < 2000; ++example) {
    const Masked masked = MaskOf(masker, text, 0, example);
    int64_t count = 0;
    for (size_t w = 0; w < words.size(); ++w) {
      const bool first = masked.labels[words[w][0]] != kIgnoredLabel;
      for (const size_t i : words[w]) ASSERT_EQ(masked.labels[i] != kIgnoredLabel, first);
      chosen[w] += first;
      count += first ? static_cast<int64_t>(words[w].size()) : 0;
    }
    ASSERT_EQ(count, 3);
    for (const size_t i : {size_t{0}, size_t{7}, size_t{10}}) ASSERT_EQ(masked.labels[i], kIgnoredLabel);
  }
  for (const int times : chosen) EXPECT_GT(times, 200);
}

TEST(Masking, NgramLengthsFollowTheirLaw) {
  constexpr double kDraws = 100000;
  PhiloxStream random(7);
  const std::vector<std::vector<double>> laws{
      {1}, {2.0 / 3, 1.0 / 3}, {6.0 / 11, 3.0 / 11, 2.0 / 11}, {12.0 / 25, 6.0 / 25, 4.0 / 25, 3.0 / 25}};
  for (const std::vector<double>& law : laws) {
    std::vector<double> count(law.size());
    for (double draw = 0; draw < kDraws; ++draw)
      ++count[static_cast<size_t>(NgramLength(random.Uniform(), static_cast<int>(law.size()))) - 1];
    for (size_t n = 0; n < law.size(); ++n)
      EXPECT_NEAR(count[n] / kDraws, law[n], 4 * std::sqrt(law[n] * (1 - law[n]) / kDraws)) << n + 1 << law.size();
  }
  for (const int longest : {1, 2, 3, 100}) {
    EXPECT_EQ(NgramLength(0, longest), 1);
    EXPECT_EQ(NgramLength(std::nextafter(1.0, 0.0), longest), longest);
  }
}

// Three of many words: with p = 6/11, 3/11, 2/11 for the first span, and what is left cutting the ones after it, they
// are one span of three with 2/11 = 22/121, one of two and one of one with 3/11 + 6/11 · 5/11 = 63/121 (the one drawn
// first or last), and three of one with (6/11)² = 36/121.
TEST(Masking, SpansOfWordsFollowTheLawOfNgrams) {
  const auto tokenizer = SmallTokenizer();
  const Masker masker(*tokenizer, 0.15, 42, {.unit = MaskedUnit::kNgram, .max_predictions = 3});
  const std::vector<int32_t> text(1000, tokenizer->Id("a"));
  std::vector<int32_t> ids, labels(text.size());
  constexpr uint64_t kExamples = 100000;
  std::map<int64_t, double> count;  // by the number of runs
  double mask = 0, kept = 0;
  for (uint64_t example = 0; example < kExamples; ++example) {
    ids = text;
    masker.Mask(0, example, ids, labels);
    int64_t runs = 0, chosen = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == kIgnoredLabel) continue;
      ++chosen;
      runs += i == 0 || labels[i - 1] == kIgnoredLabel;
      mask += ids[i] == tokenizer->mask_id();
      kept += ids[i] == text[i];
    }
    ASSERT_EQ(chosen, 3);
    ++count[runs];
  }
  // Two spans touch, or the second would cover a part of the first, once in several hundred times.
  const double touching = 6.0 / static_cast<double>(text.size());
  for (const auto& [runs, share] : std::map<int64_t, double>{{1, 22.0 / 121}, {2, 63.0 / 121}, {3, 36.0 / 121}})
    EXPECT_NEAR(count[runs] / kExamples, share, 4 * std::sqrt(share * (1 - share) / kExamples) + touching) << runs;
  const double n = 3 * kExamples, v = tokenizer->vocab_size();
  EXPECT_NEAR(mask / n, 0.8 + 0.1 / v, Spread(0.8, n));
  EXPECT_NEAR(kept / n, 0.1 + 0.1 / v, Spread(0.1, n));
}

// Words of one to four pieces between specials: the number of BERT's script or, where no word is that short, less;
// words whole, specials never.
TEST(Masking, NgramsAreWholeWordsAndNeverMoreThanTheNumber) {
  const auto tokenizer = SmallTokenizer();
  const int32_t cls = tokenizer->cls_id(), sep = tokenizer->sep_id(), head = tokenizer->Id("a"),
                tail = tokenizer->Id("##b");
  PhiloxStream random(3);
  for (const int max_ngram : {1, 3, 7}) {
    const Masker masker(*tokenizer, 0.2, 42,
                        {.unit = MaskedUnit::kNgram, .max_predictions = 12, .max_ngram = max_ngram});
    int64_t short_of_it = 0;
    for (uint64_t example = 0; example < 3000; ++example) {
      std::vector<int32_t> text{cls};
      std::vector<std::pair<size_t, size_t>> words;
      for (uint64_t word = 0, number = 1 + random.Below(40); word < number; ++word) {
        words.emplace_back(text.size(), text.size() + 1 + random.Below(4));
        text.push_back(head);
        text.resize(words.back().second, tail);
        if (random.Below(8) == 0) text.push_back(sep);
      }
      const Masked masked = MaskOf(masker, text, 1, example);
      int64_t chosen = 0, pieces = 0, shortest = 4;
      for (const auto& [begin, end] : words) {
        const bool is_chosen = masked.labels[begin] != kIgnoredLabel;
        for (size_t i = begin; i < end; ++i) {
          EXPECT_EQ(masked.labels[i], is_chosen ? text[i] : kIgnoredLabel);
          EXPECT_TRUE(is_chosen || masked.ids[i] == text[i]);
        }
        pieces += static_cast<int64_t>(end - begin);
        if (is_chosen) chosen += static_cast<int64_t>(end - begin);
        if (!is_chosen) shortest = std::min(shortest, static_cast<int64_t>(end - begin));
      }
      for (size_t i = 0; i < text.size(); ++i) {
        const bool special = tokenizer->IsSpecial(text[i]);
        EXPECT_TRUE(!special || (masked.labels[i] == kIgnoredLabel && masked.ids[i] == text[i]));
      }
      const auto number = std::min<int64_t>(12, std::max(1.0, std::nearbyint(0.2 * static_cast<double>(text.size()))));
      EXPECT_LE(chosen, number);
      // Every start was tried: where no span overlaps another, what is left over fits no word that is left.
      if (max_ngram == 1 && chosen < number) {
        EXPECT_TRUE(shortest > number - chosen || chosen == pieces) << example;
      }
      short_of_it += chosen < number;
    }
    EXPECT_GT(short_of_it, 0);
    EXPECT_LT(short_of_it, 1500);
  }
}

TEST(Masking, NgramsDependOnSeedVisitAndExampleOnly) {
  const auto tokenizer = SmallTokenizer();
  const MaskedChoice choice{.unit = MaskedUnit::kNgram};
  const Masker masker(*tokenizer, 0.15, 42, choice), again(*tokenizer, 0.15, 42, choice),
      other(*tokenizer, 0.15, 43, choice);
  const std::vector<int32_t> text = LongText(300, tokenizer->vocab_size());
  const Masked first = MaskOf(masker, text, 3, 9);
  EXPECT_EQ(MaskOf(again, text, 3, 9).labels, first.labels);
  EXPECT_EQ(MaskOf(again, text, 3, 9).ids, first.ids);
  EXPECT_NE(MaskOf(other, text, 3, 9).labels, first.labels);
  EXPECT_NE(MaskOf(masker, text, 4, 9).labels, first.labels);
  EXPECT_NE(MaskOf(masker, text, 3, 10).labels, first.labels);
}

TEST(Masking, TheTokenizerSaysWhereAWordGoesOn) {
  const auto tokenizer = SmallTokenizer();
  EXPECT_TRUE(tokenizer->ContinuesWord(tokenizer->Id("##b")));
  EXPECT_FALSE(tokenizer->ContinuesWord(tokenizer->Id("b")));
  EXPECT_FALSE(tokenizer->ContinuesWord(tokenizer->sep_id()));
}

TEST(Masking, SharesAreThoseOfTheCollator) {
  const auto tokenizer = SmallTokenizer();
  const Masker masker(*tokenizer, 0.15, 42);
  const std::vector<int32_t> text = LongText(400000, tokenizer->vocab_size());
  const Masked masked = MaskOf(masker, text, 0, 0);
  double chosen = 0, mask = 0, kept = 0, random = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (masked.labels[i] == kIgnoredLabel) {
      ASSERT_EQ(masked.ids[i], text[i]) << "a token without a label was changed";
      continue;
    }
    ASSERT_EQ(masked.labels[i], text[i]);
    ++chosen;
    mask += masked.ids[i] == tokenizer->mask_id();
    kept += masked.ids[i] == text[i];
    random += masked.ids[i] != text[i] && masked.ids[i] != tokenizer->mask_id();
  }
  const double n = static_cast<double>(text.size()), v = tokenizer->vocab_size();
  EXPECT_NEAR(chosen / n, 0.15, Spread(0.15, n));
  // The random tenth falls on [MASK] and on the token itself once in V times each.
  EXPECT_NEAR(mask / chosen, 0.8 + 0.1 / v, Spread(0.8, chosen));
  EXPECT_NEAR(kept / chosen, 0.1 + 0.1 / v, Spread(0.1, chosen));
  EXPECT_NEAR(random / chosen, 0.1 - 0.2 / v, Spread(0.1, chosen));
}

TEST(Masking, RandomTokensComeFromTheWholeVocabulary) {
  const auto tokenizer = SmallTokenizer();
  const Masker masker(*tokenizer, 1, 42);
  const std::vector<int32_t> text(200000, 5);
  const Masked masked = MaskOf(masker, text, 0, 0);
  std::vector<double> count(tokenizer->vocab_size());
  for (const int32_t id : masked.ids) ++count[id];
  const double expected = 0.1 * 200000 / tokenizer->vocab_size();
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    if (id == 5 || id == tokenizer->mask_id()) continue;
    EXPECT_NEAR(count[id], expected, 5 * std::sqrt(expected)) << "id " << id;
  }
}

TEST(Masking, SpecialTokensAreNeverChosen) {
  const auto tokenizer = SmallTokenizer();
  const Masker masker(*tokenizer, 1, 1);
  const Masked masked = MaskOf(masker, {2, 5, 3, 0, 4, 6, 3}, 0, 0);
  EXPECT_EQ(masked.labels, (std::vector<int32_t>{-100, 5, -100, -100, -100, 6, -100}));
  for (const size_t special : {0u, 2u, 3u, 4u, 6u})
    EXPECT_EQ(masked.ids[special], (std::vector{2, 5, 3, 0, 4, 6, 3}[special]));
}

TEST(Masking, DependsOnSeedVisitAndExampleOnly) {
  const auto tokenizer = SmallTokenizer();
  const Masker masker(*tokenizer, 0.15, 42), again(*tokenizer, 0.15, 42), other(*tokenizer, 0.15, 43);
  const std::vector<int32_t> text = LongText(500, tokenizer->vocab_size());
  const Masked first = MaskOf(masker, text, 3, 9);
  EXPECT_EQ(MaskOf(again, text, 3, 9).labels, first.labels);
  EXPECT_EQ(MaskOf(again, text, 3, 9).ids, first.ids);
  EXPECT_NE(MaskOf(other, text, 3, 9).labels, first.labels);
  EXPECT_NE(MaskOf(masker, text, 4, 9).labels, first.labels);
  EXPECT_NE(MaskOf(masker, text, 3, 10).labels, first.labels);
  // A longer sequence begins with the same choices.
  std::vector<int32_t> half(text.begin(), text.begin() + 250);
  half = MaskOf(masker, half, 3, 9).ids;
  EXPECT_TRUE(std::equal(half.begin(), half.end(), first.ids.begin()));
}

TEST(Masking, BatchMatesDoNotMatter) {
  const auto tokenizer = SmallTokenizer();
  const Masker masker(*tokenizer, 0.15, 42);
  SequenceSet set;
  for (int i = 0; i < 5; ++i) set.Add(LongText(40 + 10 * i, tokenizer->vocab_size()));
  const std::vector<int64_t> all{4, 0, 3, 2, 1}, alone{3};
  const PackedBatch batch = MakeMaskedBatch(set, all, masker, 2), single = MakeMaskedBatch(set, alone, masker, 2);
  const int begin = batch.tokens.cu_seqlens[2], end = batch.tokens.cu_seqlens[3];
  EXPECT_EQ(std::vector<int32_t>(batch.tokens.ids.begin() + begin, batch.tokens.ids.begin() + end), single.tokens.ids);
  EXPECT_EQ(std::vector<int32_t>(batch.labels.tokens.begin() + begin, batch.labels.tokens.begin() + end),
            single.labels.tokens);
  EXPECT_EQ(single.sequence_ids, std::vector<uint64_t>{3});
  EXPECT_EQ(batch.labels.tokens.size(), batch.tokens.ids.size());
}

TEST(Masking, RefusesBadProbabilities) {
  const auto tokenizer = SmallTokenizer();
  for (const double p : {0.0, -0.1, 1.5, std::nan("")}) {
    EXPECT_THAT(ErrorOf([&] { Masker(*tokenizer, p, 0); }),
                HasSubstr("mlm_probability: expected more than 0 and at most 1"))
        << p;
  }
}

}  // namespace
}  // namespace lshformer
