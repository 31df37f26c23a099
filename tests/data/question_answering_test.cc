// Excerpts, labels and the search for answers, against HF's tokenizer and numpy
// (tools/make_question_answering_golden.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "data/answer_search.h"
#include "data/small_tokenizer.h"
#include "data/squad_excerpts.h"
#include "text/code_points.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;
using testing::TempFolder;

const Json& Golden() {
  static const Json golden = ReadJsonFile(LSHFORMER_SOURCE_DIR "/tests/golden/question_answering.json");
  return golden;
}

std::shared_ptr<const Tokenizer> GoldenTokenizer() {
  std::string vocabulary;
  for (const Json& token : Golden()["vocab"]) vocabulary += token.get<std::string>() + "\n";
  const TempFolder folder;
  folder.Write("vocab.txt", vocabulary);
  return Tokenizer::Load(folder.path());
}

std::shared_ptr<const Tokenizer> WordPiece(const std::string& config = "{}") {
  const TempFolder folder;
  folder.Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  folder.Write("tokenizer_config.json", config);
  return Tokenizer::Load(folder.path());
}

SquadData DataOf(const Json& item) {
  SquadData data{"golden", {item["context"].get<std::string>()}, {{"q", item["question"].get<std::string>(), 0, {}}}};
  if (!item["answer"].is_null())
    data.questions[0].answers = {
        {item["answer"]["text"].get<std::string>(), item["answer"]["answer_start"].get<int32_t>()}};
  return data;
}

SquadExcerpts ExcerptsOf(const Json& item, const Tokenizer& tokenizer) {
  SquadExcerpts excerpts;
  excerpts.keep_places = true;
  AddSquadExcerpts(DataOf(item), tokenizer, {item["max_seq_length"].get<int>(), item["doc_stride"].get<int>()},
                   excerpts);
  return excerpts;
}

TEST(SquadExcerpts, AreThoseOfHf) {
  const auto tokenizer = GoldenTokenizer();
  int64_t labelled = 0, total = 0;
  for (const Json& item : Golden()["cases"]) {
    SCOPED_TRACE(item["context"].dump());
    const SquadExcerpts excerpts = ExcerptsOf(item, *tokenizer);
    ASSERT_EQ(excerpts.set.size(), static_cast<int64_t>(item["windows"].size()));
    for (int64_t i = 0; i < excerpts.set.size(); ++i) {
      const Json& want = item["windows"][static_cast<size_t>(i)];
      const auto ids = excerpts.set.ids(i);
      EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.end()), want["input_ids"].get<std::vector<int32_t>>());
      EXPECT_EQ(excerpts.set.type_ids(i), want["token_type_ids"].get<std::vector<int32_t>>());
      EXPECT_EQ(excerpts.set.span(i), (std::pair{want["start"].get<int32_t>(), want["end"].get<int32_t>()}));
      labelled += excerpts.set.span(i).first > 0;
      ++total;
    }
  }
  EXPECT_GT(labelled, 30);
  EXPECT_GT(total, labelled + 30);
}

TEST(AnswerSearch, FindsWhatNumpyFinds) {
  const auto tokenizer = GoldenTokenizer();
  int nones = 0, found = 0;
  for (const Json& item : Golden()["cases"]) {
    const SquadExcerpts excerpts = ExcerptsOf(item, *tokenizer);
    const std::string text = item["context"].get<std::string>();
    const CodePointIndex context(text);
    for (const Json& want : item["found"]) {
      SCOPED_TRACE(want.dump());
      AnswerSearch search({want["n_best_size"].get<int>(), want["max_answer_length"].get<int>(),
                           want["version_2"].get<bool>(), want["threshold"].get<double>()});
      for (size_t i = 0; i < excerpts.excerpts.size(); ++i)
        search.AddExcerpt(item["windows"][i]["start_logits"].get<std::vector<float>>(),
                          item["windows"][i]["end_logits"].get<std::vector<float>>(), excerpts.excerpts[i],
                          excerpts.places[0]);
      const FoundAnswer got = search.Finish();
      EXPECT_EQ(context.Slice(got.answer.begin, got.answer.end), want["answer"].get<std::string>());
      EXPECT_NEAR(got.null_odds, want["null_odds"].get<double>(), 1e-6);
      ASSERT_EQ(got.best.size(), want["best"].size());
      for (size_t i = 0; i < got.best.size(); ++i) {
        const Json& candidate = want["best"][i];
        EXPECT_EQ(got.best[i].begin, candidate["begin"]);
        EXPECT_EQ(got.best[i].end, candidate["end"]);
        EXPECT_EQ(got.best[i].start_logit, candidate["start_logit"]);
        EXPECT_EQ(got.best[i].end_logit, candidate["end_logit"]);
        EXPECT_NEAR(got.probabilities[i], candidate["probability"].get<double>(), 1e-12);
      }
      (got.answer.none() ? nones : found) += 1;
    }
  }
  EXPECT_GT(nones, 20);
  EXPECT_GT(found, 100);
}

TEST(AnswerSearch, WithoutRepetitionsASpanStandsOnce) {
  AnswerSearch search({20, 30, false, 0});
  const TokenPlaces places{{0, 1}, {2, 3}, {4, 5}};
  // The same three tokens in two excerpts: [CLS] q [SEP] a b c [SEP].
  const SquadExcerpt excerpt{0, 3, {0, 3}};
  search.AddExcerpt(std::vector<float>{0, 0, 0, 5, 1, 1, 0}, std::vector<float>{0, 0, 0, 5, 1, 1, 0}, excerpt, places);
  search.AddExcerpt(std::vector<float>{0, 0, 0, 4, 1, 1, 0}, std::vector<float>{0, 0, 0, 4, 1, 1, 0}, excerpt, places);
  const FoundAnswer all = search.Finish(), once = WithoutRepetitions(all);
  EXPECT_EQ(all.best.size(), 12U);
  ASSERT_EQ(once.best.size(), 6U);
  EXPECT_EQ(once.best[0].score(), 10);
  double sum = 0;
  for (const double probability : once.probabilities) sum += probability;
  EXPECT_NEAR(sum, 1, 1e-12);
}

// [CLS] q [SEP] followed by `tokens` of a context, one code point each with a space between, from token `begin` on.
SquadExcerpt ExcerptAt(int32_t begin, int32_t tokens) { return {0, 3, {begin, begin + tokens}}; }
TokenPlaces LettersOf(int32_t tokens) {
  TokenPlaces places;
  for (int32_t i = 0; i < tokens; ++i) places.emplace_back(2 * i, 2 * i + 1);
  return places;
}

TEST(AnswerBeam, ACandidateIsASpanOfTheContext) {
  const AnswerOptions options{20, 30, true, 0};
  AnswerSearch search(options);
  // Of the likelier ones: [CLS], the question, an end before its start, the [SEP] behind, 31 tokens.
  search.AddExcerpt(AnswerBeam{{{0, 0, -0.1F, -0.1F},
                                {1, 4, -0.1F, -0.1F},
                                {9, 8, -0.1F, -0.1F},
                                {9, 43, -0.1F, -0.1F},
                                {5, 35, -0.2F, -0.1F},
                                {5, 34, -0.3F, -0.2F},
                                {7, 7, -0.4F, -0.2F}},
                               -1.5F},
                    ExcerptAt(0, 40), LettersOf(60));
  const FoundAnswer found = search.Finish();
  EXPECT_EQ(found.answer.begin, 4) << "token 2 of the context";
  EXPECT_EQ(found.answer.end, 63) << "and 29 more";
  EXPECT_EQ(found.answer.start_logit, -0.3F);
  EXPECT_EQ(found.null_odds, -1.5);
  ASSERT_EQ(found.best.size(), 3U);
  EXPECT_EQ(found.best[1].begin, 8);
  EXPECT_TRUE(found.best[2].none());
  EXPECT_FLOAT_EQ(found.best[2].score(), -0.5F - 1.5F);
  const double sum = std::exp(-0.5) + std::exp(-0.6) + std::exp(-2.0);
  EXPECT_NEAR(found.probabilities[0], std::exp(-0.5) / sum, 1e-6);
  EXPECT_NEAR(found.probabilities[2], std::exp(-2.0) / sum, 1e-6);
}

// The best of all excerpts; there is no answer only where every excerpt says so.
TEST(AnswerBeam, ExcerptsOfAContextCompete) {
  const auto found = [](const AnswerOptions& options, std::vector<float> no_answer) {
    AnswerSearch search(options);
    search.AddExcerpt(AnswerBeam{{{3, 4, -1, -1}}, no_answer[0]}, ExcerptAt(0, 6), LettersOf(20));
    search.AddExcerpt(AnswerBeam{{{5, 5, -0.5F, -1}, {4, 5, -3, -1}}, no_answer[1]}, ExcerptAt(4, 6), LettersOf(20));
    return search.Finish();
  };
  const FoundAnswer old_rules = found({20, 30, false, 0}, {5, 3});
  EXPECT_EQ(old_rules.answer.begin, 12) << "token 6 of the context";
  EXPECT_EQ(old_rules.best.size(), 3U) << "none is no answer";
  const FoundAnswer none = found({20, 30, true, 0}, {5, 3});
  EXPECT_TRUE(none.answer.none());
  EXPECT_EQ(none.null_odds, 3);
  EXPECT_TRUE(none.best[0].none());
  EXPECT_FALSE(found({20, 30, true, 0}, {5, 0}).answer.none()) << "not above the threshold";
  EXPECT_FALSE(found({20, 30, true, 3}, {5, 3}).answer.none());
  EXPECT_TRUE(found({20, 30, true, -1.5}, {-1.25F, 2}).answer.none());
  EXPECT_EQ(found({2, 30, false, 0}, {0, 0}).best.size(), 2U);
  EXPECT_EQ(found({2, 30, false, 0}, {0, 0}).best[1].begin, 0) << "-2, before -4";
}

TEST(AnswerBeam, WithoutACandidateThereIsNone) {
  for (const bool version_2 : {false, true}) {
    AnswerSearch search({20, 30, version_2, 0});
    search.AddExcerpt(AnswerBeam{{{0, 0, 0, 0}}, -4}, ExcerptAt(0, 3), LettersOf(3));
    const FoundAnswer found = search.Finish();
    EXPECT_TRUE(found.answer.none());
    ASSERT_EQ(found.best.size(), 1U);
    EXPECT_EQ(found.probabilities[0], 1);
    EXPECT_EQ(found.null_odds, version_2 ? -4 : 0);
  }
}

TEST(AnswerOptions, AreChecked) {
  EXPECT_THAT(ErrorOf([] {
                ValidateOptions(AnswerTable(), {0, 30, false, 0});
              }),
              HasSubstr("n_best_size: expected 1 to"));
  EXPECT_THAT(ErrorOf([] {
                ValidateOptions(AnswerTable(), {20, 0, false, 0});
              }),
              HasSubstr("max_answer_length: expected"));
}

std::vector<std::pair<int32_t, int32_t>> Cut(int64_t question, int64_t context, int longest, int stride) {
  std::vector<std::pair<int32_t, int32_t>> excerpts;
  for (const ContextExcerpt& excerpt :
       CutContext(question, context, {false, question + 2, question + 3}, {longest, stride}))
    excerpts.emplace_back(excerpt.begin, excerpt.end);
  return excerpts;
}

TEST(CutContext, QuestionsAreReadUpToALength) {
  const auto cut = [](const Tokenizer& tokenizer, int length) {
    std::vector<int32_t> ids{5, 6, 7};
    CutQuestion({.max_query_length = length}, tokenizer, ids);
    return ids;
  };
  const auto tokenizer = WordPiece();
  EXPECT_THAT(cut(*tokenizer, 0), ElementsAre(5, 6, 7));
  EXPECT_THAT(cut(*tokenizer, 3), ElementsAre(5, 6, 7));
  EXPECT_THAT(cut(*tokenizer, 2), ElementsAre(5, 6));
  EXPECT_THAT(cut(*WordPiece(R"({"truncation_side": "left"})"), 2), ElementsAre(6, 7));
}

TEST(CutContext, ExcerptsOfATokenizerThatCutsBeginningsAreLaidFromTheEnd) {
  const ExcerptLayout layout = LayoutOf(*WordPiece(R"({"truncation_side": "left"})"), /*question_tokens=*/2);
  std::vector<std::pair<int32_t, int32_t>> excerpts;
  for (const ContextExcerpt& excerpt : CutContext(2, 18, layout, {15, 3}))
    excerpts.emplace_back(excerpt.begin, excerpt.end);
  EXPECT_THAT(excerpts, ElementsAre(std::pair{0, 4}, std::pair{1, 11}, std::pair{8, 18}));
}

// RoBERTa's: two tokens between the texts, no types.
TEST(CutContext, ExcerptsStandInTheTemplateOfTheTokenizer) {
  const testing::TempFolder folder;
  folder.Write("vocab.json", R"({"a": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "<unk>": 4, "<mask>": 5})");
  folder.Write("merges.txt", "#version: 0.2\n");
  const auto tokenizer = Tokenizer::Load(folder.path());
  const ExcerptLayout layout = LayoutOf(*tokenizer, /*question_tokens=*/2);
  EXPECT_EQ(layout.first, 5);
  EXPECT_EQ(layout.others, 6);
  const std::vector<int32_t> question{0, 0}, context{0, 4, 0};
  const ExcerptSequence excerpt = MakeExcerpt(question, context, {1, 3}, *tokenizer);
  EXPECT_THAT(excerpt.ids, ElementsAre(1, 0, 0, 2, 2, 4, 0, 2));
  EXPECT_THAT(excerpt.type_ids, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(CutContext, ExcerptsCoverTheContextAndOverlap) {
  EXPECT_THAT(Cut(2, 10, 15, 3), ElementsAre(std::pair{0, 10}));
  EXPECT_THAT(Cut(2, 11, 15, 3), ElementsAre(std::pair{0, 10}, std::pair{7, 11}));
  EXPECT_THAT(Cut(2, 24, 15, 3), ElementsAre(std::pair{0, 10}, std::pair{7, 17}, std::pair{14, 24}));
  EXPECT_THAT(Cut(2, 5, 8, 0), ElementsAre(std::pair{0, 3}, std::pair{3, 5}));
}

TEST(CutContext, AQuestionMayFillASequenceOnlyIfTheContextFits) {
  EXPECT_THAT(Cut(10, 2, 15, 128), ElementsAre(std::pair{0, 2})) << "nothing is cut, so nothing overlaps";
  EXPECT_THAT(ErrorOf([] { Cut(10, 3, 15, 2); }),
              HasSubstr("the question has 10 tokens, at most 9 leave room for the context (max_seq_length 15, "
                        "doc_stride 2)"));
  EXPECT_THAT(ErrorOf([] { Cut(1, 300, 100, 128); }), HasSubstr("at most 0 leave room"));
}

TEST(DocStride, FollowsTheLengthUnlessGiven) {
  EXPECT_EQ(DocStride({384, -1}), 128);
  EXPECT_EQ(DocStride({512, -1}), 128);
  EXPECT_EQ(DocStride({96, -1}), 32);
  EXPECT_EQ(DocStride({96, 50}), 50);
}

TEST(SquadExcerpts, NameTheQuestionThatCannotBeCut) {
  const auto tokenizer = SmallTokenizer();
  SquadData data{"dev.json", {"a b c d e f"}, {{"q1", "a b c d e f", 0, {}}}};
  SquadExcerpts excerpts;
  EXPECT_THAT(ErrorOf([&] {
                AddSquadExcerpts(data, *tokenizer, {10, 2}, excerpts);
              }),
              HasSubstr("dev.json: question \"q1\": the question has 6 tokens, at most 4"));
  data.questions[0].text = "\u200b";
  EXPECT_THAT(ErrorOf([&] {
                AddSquadExcerpts(data, *tokenizer, {10, 2}, excerpts);
              }),
              HasSubstr("question \"q1\": \"question\" has no tokens"));
}

// SentencePiece gives the space before a word to the word.
TEST(SquadExcerpts, WhiteSpaceIsNoPartOfAnAnswer) {
  const auto tokenizer = Tokenizer::Load(LSHFORMER_SOURCE_DIR "/tests/golden/sentencepiece");
  const std::string context = "the  house\u00a0of 9, keys";
  SquadData data;
  data.contexts = {context};
  data.questions.push_back({});
  data.questions[0].text = "which house";
  data.questions[0].answers = {{"house", 5}};
  SquadExcerpts excerpts;
  excerpts.keep_places = true;
  AddSquadExcerpts(data, *tokenizer, {64, 16}, excerpts);
  ASSERT_EQ(excerpts.excerpts.size(), 1u);
  const CodePointIndex index(context);
  std::string joined;
  for (const auto& [begin, end] : excerpts.places[0]) joined += index.Slice(begin, end);
  EXPECT_EQ(joined, "thehouseof9,keys");
  const auto [start, end] =
      LabelExcerpt(data.questions[0], excerpts.places[0], excerpts.excerpts[0].tokens, /*first=*/0);
  EXPECT_EQ(excerpts.places[0][static_cast<size_t>(start)].first, 5);
  EXPECT_EQ(excerpts.places[0][static_cast<size_t>(end)].second, 10);
}

TEST(SquadExcerpts, ManyContextsKeepTheirQuestions) {
  const auto tokenizer = SmallTokenizer();
  SquadData data{"dev.json", {}, {}};
  const std::string filler(1 << 20, ' ');  // pieces of 4 MiB: several of them
  for (int c = 0; c < 10; ++c) {
    const std::string letter(1, static_cast<char>('a' + c));
    data.contexts.push_back(filler + letter);
    for (int q = 0; q < c % 3; ++q)
      data.questions.push_back({letter + std::to_string(q), "x", c, {{letter, static_cast<int32_t>(filler.size())}}});
  }
  SquadExcerpts excerpts;
  excerpts.keep_places = true;
  AddSquadExcerpts(data, *tokenizer, {16, 2}, excerpts);
  ASSERT_EQ(excerpts.excerpts.size(), data.questions.size());
  EXPECT_EQ(excerpts.places.size(), data.contexts.size());
  for (size_t i = 0; i < excerpts.excerpts.size(); ++i) {
    const SquadQuestion& question = data.questions[i];
    EXPECT_EQ(excerpts.excerpts[i].question, static_cast<int32_t>(i));
    EXPECT_EQ(excerpts.set.ids(static_cast<int64_t>(i))[3], tokenizer->Id(question.id.substr(0, 1)));
    EXPECT_EQ(excerpts.set.span(static_cast<int64_t>(i)), (std::pair{3, 3}));
    EXPECT_EQ(excerpts.places[static_cast<size_t>(question.context)][0].first, 1 << 20);
  }
}

TEST(SequenceSet, SpansFollowTheirSequences) {
  SequenceSet set;
  for (int32_t i = 0; i < 4; ++i) {
    set.Add(std::vector<int32_t>{i, i});
    set.AddSpan(i, i + 1);
  }
  const uint64_t fingerprint = set.Fingerprint();
  const std::vector<int64_t> chosen{2, 0};
  const PackedBatch batch = MakeBatch(set, chosen);
  EXPECT_THAT(batch.labels.start_positions, ElementsAre(2, 0));
  EXPECT_THAT(batch.labels.end_positions, ElementsAre(3, 1));
  const SequenceSet front = set.SplitFront(1);
  EXPECT_EQ(front.span(0), (std::pair{0, 1}));
  EXPECT_EQ(set.span(0), (std::pair{1, 2}));
  set.KeepFirst(2);
  EXPECT_EQ(set.span(1), (std::pair{2, 3}));
  SequenceSet other;
  for (int32_t i = 0; i < 4; ++i) {
    other.Add(std::vector<int32_t>{i, i});
    other.AddSpan(i, i + (i < 3 ? 1 : 0));
  }
  EXPECT_NE(other.Fingerprint(), fingerprint) << "a label is part of the data";
}

}  // namespace
}  // namespace lshformer
