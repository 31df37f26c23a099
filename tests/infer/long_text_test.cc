// Texts longer than the model takes, and folders that say how vectors are made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "infer/fake_model.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::Answer;
using testing::ErrorOf;
using testing::FakeSetup;
using ::testing::HasSubstr;

constexpr const char* kLong = R"({"text": "the cat sat on a mat the cat sat"})";  // nine tokens and two around them

std::vector<float> VectorOf(const Json& answer) { return answer["embedding"].get<std::vector<float>>(); }

FakeSetup& WithWindows(FakeSetup& setup, int most, WindowPooling pooling = WindowPooling::kMean) {
  setup.options.max_seq_length = most;
  setup.options.long_text = LongText::kWindows;
  setup.options.window_pooling = pooling;
  setup.options.embedding.pooling = Pooling::kMean;
  return setup;
}

TEST(LongText, ACutTextIsToldInItsAnswer) {
  for (const PredictTask task : {PredictTask::kTextClassification, PredictTask::kFeatureExtraction}) {
    FakeSetup setup(task);
    setup.options.max_seq_length = 6;
    const Pipeline pipeline = setup.Make();
    EXPECT_EQ(Answer(pipeline, kLong)["truncated"], true);
    EXPECT_FALSE(Answer(pipeline, R"({"text": "the cat"})").contains("truncated"));
  }
}

// Nine tokens in windows of three: the embedding of the whole is the mean, or the largest, of what they are alone.
TEST(LongText, WindowsOfAnEmbeddingAreJoined) {
  FakeSetup one(PredictTask::kFeatureExtraction), several(PredictTask::kFeatureExtraction),
      largest(PredictTask::kFeatureExtraction);
  const Pipeline windows = WithWindows(several, 5).Make(), most = WithWindows(largest, 5, WindowPooling::kMax).Make();
  one.options.embedding.pooling = Pooling::kMean;
  const Pipeline alone = one.Make();
  std::vector<std::vector<float>> parts;
  for (const char* part : {R"({"text": "the cat sat"})", R"({"text": "on a mat"})", R"({"text": "the cat sat"})"})
    parts.push_back(VectorOf(Answer(alone, part)));
  const Json answer = Answer(windows, kLong);
  EXPECT_FALSE(answer.contains("truncated"));
  EXPECT_EQ(VectorOf(answer), JoinWindows(parts, WindowPooling::kMean));
  EXPECT_EQ(VectorOf(Answer(most, kLong)), JoinWindows(parts, WindowPooling::kMax));
  EXPECT_EQ(VectorOf(Answer(windows, R"({"text": "the cat"})")), VectorOf(Answer(alone, R"({"text": "the cat"})")));
}

TEST(LongText, ANormalizedEmbeddingIsSoWhenItsWindowsAreJoined) {
  FakeSetup setup(PredictTask::kFeatureExtraction);
  WithWindows(setup, 5).options.embedding.normalize = true;
  double square = 0;
  for (const float x : VectorOf(Answer(setup.Make(), kLong))) square += static_cast<double>(x) * x;
  EXPECT_NEAR(square, 1, 1e-6);
}

// The fake model's logits are 0 and the number of tokens: windows of five tokens, five and five.
TEST(LongText, WindowsOfAClassificationJoinTheirLogits) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Json results = Answer(WithWindows(setup, 5).Make(), kLong)["results"];
  EXPECT_EQ(results[0]["label"], "good");
  EXPECT_NEAR(results[0]["score"].get<double>(), 1 / (1 + std::exp(-5.0)), 1e-6);
}

// Bit for bit, whatever windows of other texts share a forward call.
TEST(LongText, WindowsDependOnTheirTextAlone) {
  FakeSetup setup(PredictTask::kFeatureExtraction);
  WithWindows(setup, 5).options.batch_tokens = 13;
  const Pipeline pipeline = setup.Make();
  const std::vector<TextInput> inputs{{"the cat sat on a mat"}, {"a"}, {"mat mat mat mat mat mat mat"}, {"cats on"}};
  const std::vector<Outcome<Embedding>> together = pipeline.Embed(inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(pipeline.Embed({&inputs[i], 1})[0].value.values, together[i].value.values);
}

TEST(LongText, WholeIsAsFarAsPositionsGo) {
  FakeSetup setup(PredictTask::kTextClassification);
  setup.options.long_text = LongText::kWhole;
  const Pipeline pipeline = setup.Make();  // 16 positions
  EXPECT_TRUE(Answer(pipeline, kLong).contains("results"));
  EXPECT_THAT(Answer(pipeline, R"({"text": "a a a a a a a a a a a a a a a"})")["error"].get<std::string>(),
              HasSubstr("in:1: \"text\" has 17 tokens, more than 16"));
}

TEST(LongText, WhereItMakesNoSenseItIsRefused) {
  const auto refused = [](PredictTask task, LongText way, bool per_token = false) {
    FakeSetup setup(task);
    setup.options.long_text = way;
    if (!per_token) setup.options.embedding.pooling = Pooling::kMean;
    return ErrorOf([&] { setup.Make(); });
  };
  EXPECT_THAT(refused(PredictTask::kFillMask, LongText::kWindows), HasSubstr("long_text: windows is for task text-"));
  EXPECT_THAT(refused(PredictTask::kMultipleChoice, LongText::kWindows), HasSubstr("long_text: windows is for"));
  for (const LongText way : {LongText::kWindows, LongText::kWhole})
    EXPECT_THAT(refused(PredictTask::kQuestionAnswering, way), HasSubstr("reads a long context in excerpts"));
  EXPECT_THAT(refused(PredictTask::kFeatureExtraction, LongText::kWindows, true), HasSubstr("pooling none"));
  EXPECT_EQ(refused(PredictTask::kFillMask, LongText::kWhole), "(nothing thrown)");
}

// A Sentence-Transformers folder over the fake model.
struct FakeSentences : FakeSetup {
  explicit FakeSentences(const std::string& pooling, const std::string& settings = "{}")
      : FakeSetup(PredictTask::kFeatureExtraction) {
    folder.Write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])");
    folder.Write("1_Pooling/config.json", R"({"word_embedding_dimension": 4, )" + pooling + "}");
    folder.Write("config_sentence_transformers.json", settings);
  }
  Pipeline Make() {
    model = std::make_shared<testing::FakeModel>(config, Task::kEncoder);
    return Pipeline(model, Tokenizer::Load(folder.path()), options, SentenceModules::Read(folder.path()));
  }
};

std::vector<float> Unit(std::vector<float> vector) {
  NormalizeVector(vector);
  return vector;
}

TEST(SentenceFolders, SayHowAVectorIsMadeAndOptionsGoOverThem) {
  FakeSentences setup("\"pooling_mode_cls_token\": true");
  const Pipeline pipeline = setup.Make();
  const std::vector<float> cls{2, 2.1F, 2.2F, 2.3F};  // [CLS] is token 2
  EXPECT_EQ(VectorOf(Answer(pipeline, R"({"text": "the cat"})")), Unit(cls));
  EXPECT_EQ(VectorOf(Answer(pipeline, R"({"text": "the cat", "normalize": false})")), cls);
  EXPECT_EQ(VectorOf(Answer(pipeline, R"({"text": "the cat", "normalize": false, "pooling": "lasttoken"})")),
            (std::vector<float>{3, 3.1F, 3.2F, 3.3F}));
  const Json states = Answer(pipeline, R"({"text": "the cat", "pooling": "none"})")["embedding"];
  ASSERT_EQ(states.size(), 4U);
  EXPECT_EQ(states[0].get<std::vector<float>>(), cls);
}

TEST(SentenceFolders, PromptsStandBeforeTextsAndMayBeLeftOutAgain) {
  const std::string settings = R"({"prompts": {"q": "sat on ", "d": ""}, "default_prompt_name": "q"})";
  FakeSentences with("\"pooling_mode_mean_tokens\": true", settings), plain("\"pooling_mode_mean_tokens\": true"),
      without("\"pooling_mode_cls_token\": true, \"include_prompt\": false", settings);
  const Pipeline prompted = with.Make(), bare = plain.Make(), left_out = without.Make();
  const std::vector<float> expected = VectorOf(Answer(bare, R"({"text": "sat on the cat"})"));
  EXPECT_EQ(VectorOf(Answer(prompted, R"({"text": "the cat"})")), expected);
  EXPECT_EQ(VectorOf(Answer(prompted, R"({"text": "the cat", "prompt_name": "d"})")),
            VectorOf(Answer(bare, R"({"text": "the cat"})")));
  // Behind [CLS] sat on: the word "the", token 5.
  EXPECT_EQ(VectorOf(Answer(left_out, R"({"text": "the cat"})")), Unit({5, 5.1F, 5.2F, 5.3F}));
  EXPECT_THAT(Answer(prompted, R"({"text": "the cat", "prompt_name": "x"})")["error"].get<std::string>(),
              HasSubstr("expected one of d, q, got \"x\""));
  EXPECT_THAT(Answer(bare, R"({"text": "the cat", "prompt_name": "x"})")["error"].get<std::string>(),
              HasSubstr("the folder has no prompts"));
}

// Every window is a text of its own, with the prompt before it.
TEST(SentenceFolders, WindowsBeginWithThePrompt) {
  FakeSentences setup("\"pooling_mode_mean_tokens\": true",
                      R"({"prompts": {"q": "sat on "}, "default_prompt_name": "q"})");
  FakeSentences one("\"pooling_mode_mean_tokens\": true");
  setup.options.max_seq_length = 6;
  setup.options.long_text = LongText::kWindows;
  const Pipeline windows = setup.Make(), alone = one.Make();
  const std::vector<std::vector<float>> parts{VectorOf(Answer(alone, R"({"text": "sat on the cat"})")),
                                              VectorOf(Answer(alone, R"({"text": "sat on a mat"})"))};
  EXPECT_EQ(VectorOf(Answer(windows, R"({"text": "the cat a mat"})")), Unit(JoinWindows(parts, WindowPooling::kMean)));
}

TEST(SentenceFolders, TheirLengthIsTheDefault) {
  FakeSentences setup("\"pooling_mode_mean_tokens\": true"), more("\"pooling_mode_mean_tokens\": true");
  setup.folder.Write("sentence_bert_config.json", R"({"max_seq_length": 6})");
  more.folder.Write("sentence_bert_config.json", R"({"max_seq_length": 600})");  // the model has 16 positions
  EXPECT_EQ(setup.Make().options().max_seq_length, 6);
  EXPECT_EQ(more.Make().options().max_seq_length, 16);
  FakeSentences least("\"pooling_mode_mean_tokens\": true"), none("\"pooling_mode_mean_tokens\": true");
  least.folder.Write("sentence_bert_config.json", R"({"max_seq_length": 3})");
  none.folder.Write("sentence_bert_config.json", R"({"max_seq_length": 2})");
  EXPECT_EQ(VectorOf(Answer(least.Make(), R"({"text": "the cat"})")),
            VectorOf(Answer(more.Make(), R"({"text": "the"})")));
  EXPECT_THAT(ErrorOf([&] { none.Make(); }),
              HasSubstr("/sentence_bert_config.json: \"max_seq_length\": expected at least 3, got 2"));
  setup.options.long_text = LongText::kWhole;
  EXPECT_EQ(setup.Make().options().max_seq_length, 16);
  setup.options.max_seq_length = 9;
  EXPECT_EQ(setup.Make().options().max_seq_length, 9);
}

}  // namespace
}  // namespace lshformer
