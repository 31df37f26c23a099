#include "infer/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "infer/fake_model.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::Answer;
using ::testing::EndsWith;
using testing::ErrorOf;
using testing::FakeSetup;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// Probability of token `wanted` where `best` is the favourite, by the fake model's rule.
double Probability(int wanted, int best) {
  double sum = 0;
  for (int v = 0; v < 13; ++v) sum += std::exp(v == best ? v : -v / 8.0);
  return std::exp(wanted == best ? wanted : -wanted / 8.0) / sum;
}

TEST(FillMaskTest, OneMaskGivesAList) {
  FakeSetup setup(PredictTask::kFillMask);
  const Json answer = Answer(setup.Make(), R"({"id": 7, "text": "The cat [MASK] on a mat."})");
  // [CLS] the cat [MASK]: position 3, so token 8.
  EXPECT_EQ(answer["id"], 7);
  const Json& results = answer["results"];
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(Keys(results[0]), (std::vector<std::string>{"score", "token", "token_str", "sequence"}));
  EXPECT_EQ(results[0]["token"], 8);
  EXPECT_EQ(results[0]["token_str"], "sat");
  EXPECT_EQ(results[0]["sequence"], "the cat sat on a mat.");
  EXPECT_NEAR(results[0]["score"].get<double>(), Probability(8, 8), 1e-6);
  EXPECT_EQ(results[1]["token"], 0);
  EXPECT_NEAR(results[1]["score"].get<double>(), Probability(0, 8), 1e-9);
}

TEST(FillMaskTest, SeveralMasksGiveAListOfListsWithOneMaskFilledEach) {
  FakeSetup setup(PredictTask::kFillMask);
  const Json answer = Answer(setup.Make(), R"({"text": "the [MASK] [MASK]", "top_k": 1})");
  EXPECT_FALSE(answer.contains("id"));
  ASSERT_EQ(answer["results"].size(), 2U);
  EXPECT_EQ(answer["results"][0][0]["token"], 7);
  EXPECT_EQ(answer["results"][0][0]["token_str"], "##s");
  EXPECT_EQ(answer["results"][0][0]["sequence"], "[CLS] thes [MASK] [SEP]");
  EXPECT_EQ(answer["results"][1][0]["token"], 8);
  EXPECT_EQ(answer["results"][1][0]["sequence"], "[CLS] the [MASK] sat [SEP]");
}

TEST(FillMaskTest, TopKOfALineWinsUpToTheVocabulary) {
  FakeSetup setup(PredictTask::kFillMask);
  const Pipeline pipeline = setup.Make();
  EXPECT_EQ(Answer(pipeline, R"({"text": "[MASK]", "top_k": 13})")["results"].size(), 13U);
  double sum = 0;
  const Json results = Answer(pipeline, R"({"text": "[MASK]", "top_k": 13})")["results"];
  for (const Json& result : results) sum += result["score"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(ClassificationTest, LabelsBestFirst) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Json answer = Answer(setup.Make(), R"({"id": null, "text": "the cat", "text_pair": "sat"})");
  ASSERT_EQ(answer["results"].size(), 2U);
  EXPECT_EQ(Keys(answer["results"][0]), (std::vector<std::string>{"label", "score"}));
  EXPECT_EQ(answer["results"][0]["label"], "good");
  // [CLS] the cat [SEP] sat [SEP]: six tokens.
  EXPECT_NEAR(answer["results"][0]["score"].get<double>(), 1 / (1 + std::exp(-6.0)), 1e-6);
  EXPECT_NEAR(answer["results"][1]["score"].get<double>(), 1 / (1 + std::exp(6.0)), 1e-8);
}

TEST(ClassificationTest, RegressionAndSingleLabelsFollowHf) {
  FakeSetup regression(PredictTask::kTextClassification);
  regression.config.problem_type = "regression";
  EXPECT_EQ(Answer(regression.Make(), R"({"text": "the cat"})")["results"][0]["score"], 4.0);
  FakeSetup single(PredictTask::kTextClassification);
  single.config.num_labels = 1;
  single.config.labels = {"spam"};
  EXPECT_EQ(Answer(single.Make(), R"({"text": "the cat"})")["results"],
            Json::parse(R"([{"label": "spam", "score": 0.5}])"));
}

// The fake model's logits are 0 and the number of tokens.
TEST(ClassificationTest, OfSeveralLabelsEachHasItsOwnSigmoid) {
  FakeSetup setup(PredictTask::kTextClassification);
  setup.config.problem_type = ModelConfig::kMultiLabel;
  const Json results = Answer(setup.Make(), R"({"text": "the cat"})")["results"];
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["label"], "good");
  EXPECT_NEAR(results[0]["score"].get<double>(), 1 / (1 + std::exp(-4.0)), 1e-6);
  EXPECT_EQ(results[1]["score"], 0.5);
}

TEST(ClassificationTest, ASecondTextMayBeEmptyOrMissing) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  EXPECT_EQ(pipeline.PrepareClassify({"the cat", ""}).value.text.ids.size(), 5U) << "[CLS] the cat [SEP] [SEP]";
  EXPECT_EQ(pipeline.PrepareClassify({"the cat"}).value.text.ids.size(), 4U);
  EXPECT_EQ(Answer(pipeline, R"({"text": "the cat", "text_pair": null})"), Answer(pipeline, R"({"text": "the cat"})"));
}

// In the line's place: the others are answered.
TEST(ClassificationTest, AModelOfOneTypeTakesNoSecondText) {
  FakeSetup setup(PredictTask::kTextClassification);
  setup.config.type_vocab_size = 1;
  const Pipeline pipeline = setup.Make();
  EXPECT_THAT(Answer(pipeline, R"({"text": "the", "text_pair": "cat"})")["error"].get<std::string>(),
              EndsWith("in:1: \"text_pair\": the model takes no second text (type_vocab_size 1)"));
  EXPECT_TRUE(Answer(pipeline, R"({"text": "the cat"})").contains("results"));
}

TEST(ClassificationTest, OutputThatIsNotFiniteIsAnErrorOfTheLine) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  setup.model->scale = INFINITY;
  EXPECT_THAT(Answer(pipeline, R"({"id": "x", "text": "the cat"})")["error"].get<std::string>(),
              HasSubstr("not finite"));
}

TEST(FeatureExtractionTest, Pooling) {
  FakeSetup setup(PredictTask::kFeatureExtraction);
  const Pipeline pipeline = setup.Make();
  // Ids 2 5 6 3.
  const Json none = Answer(pipeline, R"({"text": "the cat"})")["embedding"];
  ASSERT_EQ(none.size(), 4U);
  ASSERT_EQ(none[1].size(), 4U);
  EXPECT_EQ(none[1][0], 5.0);
  EXPECT_NEAR(none[2][3].get<double>(), 6.3, 1e-6);
  const Json cls = Answer(pipeline, R"({"text": "the cat", "pooling": "cls"})")["embedding"];
  ASSERT_EQ(cls.size(), 4U);
  EXPECT_NEAR(cls[1].get<double>(), 2.1, 1e-6);
  const Json mean = Answer(pipeline, R"({"text": "the cat", "pooling": "mean"})")["embedding"];
  EXPECT_NEAR(mean[0].get<double>(), 4, 1e-6);
  const Json unit = Answer(pipeline, R"({"text": "the cat", "pooling": "mean", "normalize": true})")["embedding"];
  double square = 0;
  for (const Json& x : unit) square += x.get<double>() * x.get<double>();
  EXPECT_NEAR(square, 1, 1e-6);
  EXPECT_NEAR(unit[1].get<double>() / unit[0].get<double>(), 4.1 / 4, 1e-6);
}

TEST(FeatureExtractionTest, NormalizeWithoutPoolingIsPerToken) {
  FakeSetup setup(PredictTask::kFeatureExtraction);
  setup.options.embedding.normalize = true;
  const Json rows = Answer(setup.Make(), R"({"text": "the"})")["embedding"];
  for (const Json& row : rows) {
    double square = 0;
    for (const Json& x : row) square += x.get<double>() * x.get<double>();
    EXPECT_NEAR(square, 1, 1e-6);
  }
}

TEST(PrepareTest, BadLinesSayWhatIsWrongAndKeepTheirId) {
  FakeSetup setup(PredictTask::kFillMask);
  const Pipeline pipeline = setup.Make();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "in:1: "},
      {"{", "in:1: invalid JSON"},
      {"[1]", "in:1: expected a JSON object, got array"},
      {R"({"id": 5})", "in:1: \"text\" is missing"},
      {R"({"id": 5, "text": 3})", "\"text\""},
      {R"({"id": 5, "text": null})", "\"text\""},
      {R"({"id": 5, "text": ""})", "in:1: \"text\" is empty"},
      {R"({"id": 5, "text": " \t "})", "blank"},
      {R"({"id": 5, "text": "the cat"})", "\"text\" has no [MASK]"},
      {R"({"id": 5, "text": "[MASK]", "top_k": 0})", "\"top_k\""},
      {R"({"id": 5, "text": "[MASK]", "top_k": -1})", "\"top_k\""},
      {R"({"id": 5, "text": "[MASK]", "top_k": 14})", "1 to 13"},
      {R"({"id": 5, "text": "[MASK]", "top_k": 1.5})", "\"top_k\""},
      {R"({"id": 5, "text": "[MASK]", "top_k": "5"})", "\"top_k\""},
      {"{\"id\": 5, \"text\": \"[MASK] \xff\"}", "in:1: "},
      {R"({"id": 5, "text": "[MASK]", "text": "[MASK]"})", "duplicate key"},
      {R"({"id": 5, "text": "a a a a a a a a a a a a a a a a a a [MASK]"})", "in its first 16 tokens"},
  };
  for (const auto& [line, expected] : cases) {
    const Json answer = Answer(pipeline, line);
    EXPECT_EQ(Keys(answer), (std::vector<std::string>{"id", "error"})) << line;
    EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr(expected)) << line;
    const bool readable = line.find("\"id\"") != line.npos && expected.find("duplicate") == expected.npos &&
                          line.find('\xff') == line.npos;
    EXPECT_EQ(answer["id"], readable ? Json(5) : Json(nullptr)) << line;
  }
}

TEST(PrepareTest, OptionsOfOtherTasksAreIgnored) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Json answer = Answer(setup.Make(), R"({"text": "the cat", "top_k": "many", "pooling": 3, "extra": []})");
  EXPECT_EQ(answer["results"].size(), 2U);
}

TEST(PrepareTest, WrongPoolingAndPairsAreRefused) {
  FakeSetup features(PredictTask::kFeatureExtraction);
  const Pipeline pipeline = features.Make();
  EXPECT_THAT(Answer(pipeline, R"({"text": "a", "pooling": "most"})")["error"].get<std::string>(),
              HasSubstr("none, cls, mean"));
  EXPECT_THAT(Answer(pipeline, R"({"text": "a", "normalize": 1})")["error"].get<std::string>(),
              HasSubstr("\"normalize\""));
  FakeSetup classes(PredictTask::kTextClassification);
  EXPECT_THAT(Answer(classes.Make(), R"({"text": "a", "text_pair": 1})")["error"].get<std::string>(),
              HasSubstr("\"text_pair\""));
}

TEST(PrepareTest, IdsOfAnyKindAreCopied) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  for (const char* id : {"\"a\\u0000é\"", "12345678901234567890", "1.5", "{\"a\": [1]}", "true"}) {
    EXPECT_EQ(Answer(pipeline, std::string("{\"text\": \"a\", \"id\": ") + id + "}")["id"], Json::parse(id));
  }
  // A parser would round the first four.
  for (const char* id : {"9007199254740993", "123456789012345678901234567890", "-18446744073709551617",
                         "0.1000000000000000000001", "1.50", "1E2", "{\"n\":[36893488147419103233,\"x \\u00e9\"]}"}) {
    const std::string good = testing::Written(pipeline, std::string("{\"text\": \"a\", \"id\": ") + id + "}");
    EXPECT_THAT(good, StartsWith(std::string("{\"id\": ") + id + ", \"results\": "));
    const std::string bad = testing::Written(pipeline, std::string("{\"id\": ") + id + ", \"text\": 1}");
    EXPECT_THAT(bad, StartsWith(std::string("{\"id\": ") + id + ", \"error\": "));
  }
}

TEST(PrepareTest, AnIdThatIsNullIsAnIdAndNoIdIsNone) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  EXPECT_EQ(Keys(Answer(pipeline, R"({"id": null, "text": "a"})")), (std::vector<std::string>{"id", "results"}));
  EXPECT_TRUE(Answer(pipeline, R"({"id": null, "text": "a"})")["id"].is_null());
  EXPECT_EQ(Keys(Answer(pipeline, R"({"text": "a"})")), (std::vector<std::string>{"results"}));
}

TEST(PrepareTest, LongTextsAreCutAndMarked) {
  FakeSetup setup(PredictTask::kTextClassification);
  setup.options.max_seq_length = 6;
  const Pipeline pipeline = setup.Make();
  EXPECT_FALSE(pipeline.PrepareClassify({"a a a a"}).truncated);
  const Outcome<ClassifyQuery> cut = pipeline.PrepareClassify({"a a a a a"});
  EXPECT_TRUE(cut.truncated);
  EXPECT_EQ(cut.value.text.ids.size(), 6U);
}

// The beginning of a huge text stands for all of it.
TEST(PrepareTest, AHugeTextGivesTheTokensOfItsBeginning) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  std::string text = "the cats ";
  while (text.size() < (size_t{5} << 20)) text += "sat on a mat . ";
  const auto line = [](const std::string& t) { return "{\"id\": 1, \"text\": \"" + t + "\"}"; };
  const auto read = [&](const std::string& json) { return ReadLineQuery<ClassifyQuery>(pipeline, json, "x"); };
  const auto huge = read(line(text)), small = read(line(text.substr(0, 300)));
  EXPECT_EQ(huge.query.value.text.ids, small.query.value.text.ids);
  EXPECT_TRUE(huge.query.truncated);
  EXPECT_EQ(huge.id, "1");
  // Blanks give no tokens: what counts is what follows them.
  const std::string late = std::string(size_t{5} << 20, ' ') + "the cat";
  EXPECT_EQ(read(line(late)).query.value.text.ids, (std::vector<int32_t>{2, 5, 6, 3}));
  // What is wrong far behind is still wrong.
  for (const char* wrong : {"\xff", "\x01", "\\x"}) EXPECT_FALSE(read(line(text + wrong)).query.ok()) << wrong;
  EXPECT_FALSE(read(line(text) + "]").query.ok());
}

TEST(PipelineTest, WhatDoesNotFitTheModelIsRefused) {
  const auto message = [](auto change) {
    FakeSetup setup(PredictTask::kFillMask);
    change(setup);
    return ErrorOf([&] { setup.Make(); });
  };
  EXPECT_THAT(message([](FakeSetup& s) { s.options.top_k = 14; }), HasSubstr("top_k: expected 1 to 13"));
  EXPECT_THAT(message([](FakeSetup& s) { s.options.max_seq_length = 17; }),
              HasSubstr("max_seq_length: expected 5 to 16"));
  EXPECT_THAT(message([](FakeSetup& s) { s.options.max_seq_length = 4; }), HasSubstr("max_seq_length"));
  EXPECT_THAT(message([](FakeSetup& s) { s.options.batch_tokens = 0; }), HasSubstr("batch_tokens: expected"));
  EXPECT_THAT(message([](FakeSetup& s) { s.config.vocab_size = 12; }), HasSubstr("13 tokens"));
  EXPECT_EQ(message([](FakeSetup& s) {}), "(nothing thrown)");
}

// Of one input with an error the others know nothing; it names the field.
TEST(TypedCallsTest, AnErrorIsOfItsInputAlone) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  const std::vector<TextInput> inputs{{"the cat", "sat"}, {""}, {"a", "\xff"}, {"\xff"}, {"the"}, {" "}};
  const auto outcomes = pipeline.Classify(inputs);
  ASSERT_EQ(outcomes.size(), 6U);
  EXPECT_EQ(outcomes[0].value[0].label, "good");
  EXPECT_NEAR(outcomes[0].value[0].score, 1 / (1 + std::exp(-6.0)), 1e-6);
  EXPECT_EQ(outcomes[1].error, "\"text\" is empty");
  EXPECT_EQ(outcomes[2].error, "\"text_pair\": expected UTF-8");
  EXPECT_EQ(outcomes[3].error, "\"text\": expected UTF-8");
  EXPECT_TRUE(outcomes[4].ok());
  EXPECT_NEAR(outcomes[4].value[0].score, 1 / (1 + std::exp(-3.0)), 1e-6);
  EXPECT_EQ(outcomes[5].error, "\"text\" has no tokens: it is blank");
  EXPECT_TRUE(pipeline.Classify({}).empty());
  EXPECT_EQ(setup.model->calls, (std::vector<int64_t>{9}));  // one call for both good ones
}

TEST(TypedCallsTest, MasksAndEmbeddings) {
  FakeSetup masks(PredictTask::kFillMask);
  const Pipeline filler = masks.Make();
  const std::vector<TextInput> texts{{"the [MASK] [MASK]"}, {"no mask"}};
  const auto filled = filler.FillMask(texts, /*top_k=*/3);
  EXPECT_EQ(filled[0].value.masks, (std::vector<int32_t>{2, 3}));
  ASSERT_EQ(filled[0].value.candidates.size(), 2U);
  ASSERT_EQ(filled[0].value.candidates[0].size(), 3U);
  EXPECT_EQ(filled[0].value.candidates[0][0].token, 7);
  EXPECT_EQ(filler.TokenText(7), "##s");
  EXPECT_EQ(filler.FilledText(filled[0].value, 0, 7), "[CLS] thes [MASK] [SEP]");
  EXPECT_EQ(filled[1].error, "\"text\" has no [MASK]");
  EXPECT_EQ(filler.FillMask(texts, 14)[0].error, "\"top_k\": expected 1 to 13, got 14");
  FakeSetup vectors(PredictTask::kFeatureExtraction);
  vectors.options.max_seq_length = 5;
  const Pipeline embedder = vectors.Make();
  const std::vector<TextInput> long_text{{"the cat sat on"}};
  const auto embedded = embedder.Embed(long_text, EmbedOptions{Pooling::kMean, false});
  EXPECT_TRUE(embedded[0].truncated);
  EXPECT_FALSE(embedded[0].value.per_token);
  ASSERT_EQ(embedded[0].value.values.size(), 4U);
  EXPECT_NEAR(embedded[0].value.values[0], (2 + 5 + 6 + 8 + 3) / 5.0, 1e-6);
  EXPECT_EQ(embedder.Embed(long_text)[0].value.values.size(), 20U);  // the pipeline's own: a vector per token
  EXPECT_THAT(ErrorOf([&] { embedder.Classify(long_text); }), HasSubstr("another task"));
}

TEST(TypedCallsTest, QuestionsGiveSpansInCodePoints) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  const Pipeline pipeline = setup.Make();
  const std::vector<QuestionInput> asked{{"a mat", "cat é東 sat the"}, {" ", "cat"}, {"a", "\xff"}, {"a", "cat sat"}};
  const auto answers = pipeline.Answer(asked, /*top_k=*/2);
  ASSERT_EQ(answers.size(), 4U);
  ASSERT_EQ(answers[0].value.size(), 2U);
  EXPECT_EQ(answers[0].value[0].text, "sat");
  EXPECT_EQ(answers[0].value[0].start, 7);
  EXPECT_EQ(answers[0].value[0].end, 10);
  EXPECT_GE(answers[0].value[0].score, answers[0].value[1].score);
  EXPECT_EQ(answers[1].error, "\"question\" has no tokens: it is blank");
  EXPECT_EQ(answers[2].error, "\"context\": expected UTF-8");
  EXPECT_EQ(answers[3].value[0].text, "sat");
  EXPECT_EQ(pipeline.Answer(asked, 21)[0].error, "\"top_k\": expected 1 to 20, got 21");
}

TEST(FeatureExtractionTest, APairIsOneSequence) {
  FakeSetup setup(PredictTask::kFeatureExtraction);
  const Pipeline pipeline = setup.Make();
  const Json rows = Answer(pipeline, R"({"text": "the cat", "text_pair": "sat"})")["embedding"];
  std::vector<double> ids;  // [CLS] the cat [SEP] sat [SEP]
  for (const Json& row : rows) ids.push_back(row[0].get<double>());
  EXPECT_EQ(ids, (std::vector<double>{2, 5, 6, 3, 8, 3}));
  EXPECT_EQ(pipeline.PrepareEmbed({"the cat", "sat"}, {}).value.text.type_ids,
            (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_THAT(Answer(pipeline, R"({"text": "a", "text_pair": 1})")["error"].get<std::string>(),
              HasSubstr("\"text_pair\""));
}

TEST(PipelineTest, UnknownNamesSuggestTheNearest) {
  EXPECT_EQ(ParsePredictTask("fill-mask"), PredictTask::kFillMask);
  EXPECT_EQ(ParsePooling("mean"), Pooling::kMean);
  EXPECT_THAT(ErrorOf([] { ParsePredictTask("fil-mask"); }), HasSubstr("did you mean \"fill-mask\""));
  EXPECT_THAT(ErrorOf([] { ParsePooling("cslx"); }), HasSubstr("none, cls, mean"));
}

TEST(BestOfTest, TiesGoToTheSmallerIndex) {
  const std::vector<float> scores{1, 3, 3, 2};
  std::vector<int32_t> order;
  for (const auto& [place, score] : BestOf(scores, 3)) order.push_back(place);
  EXPECT_EQ(order, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(BestOf(scores, 10).size(), 4U);
}

TEST(SoftmaxRowTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits{1000, 999, -1000};
  std::vector<float> probabilities(3);
  SoftmaxRow(logits, probabilities);
  EXPECT_NEAR(probabilities[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(probabilities[2], 0);
}

// [CLS] context [SEP] question option [SEP]: the longest option wins by the fake model's rule.
TEST(MultipleChoiceTest, ScoresAreASoftmaxOverTheOptions) {
  FakeSetup setup(PredictTask::kMultipleChoice);
  setup.options.batch_tokens = 12;  // an example's options in several calls
  const Pipeline pipeline = setup.Make();
  const Json answer =
      Answer(pipeline,
             R"({"id": 3, "context": "the cat", "question": "on", "options": ["a", "a mat .", "a mat"], "label": 0})");
  EXPECT_EQ(answer["id"], 3);
  const Json& results = answer["results"];
  ASSERT_EQ(results.size(), 3U);
  const double sum = std::exp(0.25 * 7) + std::exp(0.25 * 8) + std::exp(0.25 * 9);
  const std::vector<std::pair<int, int>> want{{1, 9}, {2, 8}, {0, 7}};  // option, tokens
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(results[i]["label"], want[i].first);
    EXPECT_NEAR(results[i]["score"].get<double>(), std::exp(0.25 * want[i].second) / sum, 1e-6);
  }
  EXPECT_GT(setup.model->calls.size(), 1u);
}

TEST(MultipleChoiceTest, InputsStandForThemselves) {
  FakeSetup setup(PredictTask::kMultipleChoice);
  const Pipeline pipeline = setup.Make();
  const std::vector<ChoiceInput> inputs{{"on", "the cat", {"a", "a mat"}},
                                        {"on", "the cat", {"a"}},
                                        {"on", " ", {"a", "mat"}},
                                        {"", "the", {"a", " "}},
                                        {"on", "the cat the cat the cat the cat the cat the cat", {"a", "mat"}}};
  const auto outcomes = pipeline.Choose(inputs);
  ASSERT_TRUE(outcomes[0].ok()) << outcomes[0].error;
  EXPECT_EQ(outcomes[0].value[0].option, 1);
  EXPECT_EQ(outcomes[1].error, "\"options\": expected 2 to 26, got 1");
  EXPECT_EQ(outcomes[2].error, "\"context\" has no tokens: it is blank");
  EXPECT_EQ(outcomes[3].error, "\"question\" with \"options\"[1] has no tokens: they are blank");
  EXPECT_TRUE(outcomes[4].ok());
  EXPECT_TRUE(outcomes[4].truncated);
  EXPECT_FALSE(outcomes[0].truncated);
  for (const auto& [line, error] :
       {std::pair(R"({"question": "a", "context": "a"})", "in:1: \"options\" is missing"),
        {R"({"question": "a", "context": "a", "options": "b"})", "in:1: \"options\": expected a list, got \"b\""},
        {R"({"question": "a", "context": "a", "options": ["b", 1]})", "in:1: \"options\"[1]: expected a string, got 1"},
        {R"({"context": "a", "options": ["b", "c"]})", "in:1: \"question\" is missing"}})
    EXPECT_THAT(Answer(pipeline, line)["error"].get<std::string>(), HasSubstr(error));
  setup.model->scale = std::numeric_limits<float>::infinity();
  EXPECT_THAT(pipeline.Choose({inputs.data(), 1})[0].error, HasSubstr("not finite"));
  EXPECT_THAT(ErrorOf([&] { pipeline.Classify({}); }), HasSubstr("another task"));
}

}  // namespace
}  // namespace lshformer
