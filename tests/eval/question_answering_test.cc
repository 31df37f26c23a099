// Evaluation of question answering, and the files it leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/small_tokenizer.h"
#include "eval/answer_files.h"
#include "eval/evaluate.h"
#include "eval/squad_score.h"
#include "ops/span_cross_entropy.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;
using testing::TempFolder;

// Logits that are a function of the token and its place alone.
class FormulaAnswers : public Model {
 public:
  FormulaAnswers() : Model(ModelConfig{}, Task::kQuestionAnswering) {}
  static float Start(int32_t id, int32_t position) { return static_cast<float>(std::sin(id + 0.1 * position)); }
  static float End(int32_t id, int32_t position) { return static_cast<float>(std::cos(2 * id + 0.3 * position)); }

  ModelOutput Run(const PackedBatch& batch, const ForwardOptions&) override {
    torch::Tensor logits = torch::empty({batch.tokens.size(), 2});
    auto z = logits.accessor<float, 2>();
    for (size_t t = 0; t < batch.tokens.ids.size(); ++t) {
      z[t][0] = scale * Start(batch.tokens.ids[t], batch.tokens.positions[t]);
      z[t][1] = scale * End(batch.tokens.ids[t], batch.tokens.positions[t]);
    }
    ModelOutput output;
    output.start_logits = logits.select(1, 0);
    output.end_logits = logits.select(1, 1);
    output.loss =
        SpanCrossEntropy(logits, batch.tokens.cu_seqlens, batch.labels.start_positions, batch.labels.end_positions);
    output.terms = {output.loss};
    return output;
  }
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return {}; }
  float scale = 1;
};

SquadData Data() {
  SquadData data{"dev.json", {"a b c d e f g h i j k l m n", "東 x y z w v"}, {}};
  data.questions = {{"q1", "a b", 0, {{"c d", 4}}},
                    {"q\"2", "z", 0, {{"m", 24}, {"k l", 20}}},
                    {"q3", "y", 1, {}},
                    {"q4", "b", 1, {{"y z", 4}}}};
  return data;
}

SquadExcerpts ExcerptsOf(const SquadData& data) {
  SquadExcerpts excerpts;
  excerpts.keep_places = true;
  AddSquadExcerpts(data, *SmallTokenizer(), {10, 2}, excerpts);
  return excerpts;
}

EvaluateOptions QuietInBatchesOf(int batch_size) { return {.batch_size = batch_size, .progress = false}; }

TEST(EvaluateQuestionAnswering, SearchesEveryExcerptOfAQuestion) {
  const SquadData data = Data();
  const SquadExcerpts excerpts = ExcerptsOf(data);
  ASSERT_GT(excerpts.set.size(), 6);
  const AnswerOptions answering{4, 3, true, 0.1};
  // By hand, excerpt by excerpt.
  std::vector<AnswerSearch> searches(data.questions.size(), AnswerSearch(answering));
  for (int64_t i = 0; i < excerpts.set.size(); ++i) {
    std::vector<float> starts, ends;
    for (const int32_t id : excerpts.set.ids(i)) {
      const auto position = static_cast<int32_t>(starts.size());
      starts.push_back(FormulaAnswers::Start(id, position));
      ends.push_back(FormulaAnswers::End(id, position));
    }
    const SquadExcerpt& excerpt = excerpts.excerpts[static_cast<size_t>(i)];
    const auto question = static_cast<size_t>(excerpt.question);
    searches[question].AddExcerpt(starts, ends, excerpt,
                                  excerpts.places[static_cast<size_t>(data.questions[question].context)]);
  }
  FormulaAnswers model;
  double loss = -1;
  for (const int batch_size : {1, 2, 5, 100}) {
    const AnswerEvaluation result =
        EvaluateQuestionAnswering(model, data, excerpts, answering, QuietInBatchesOf(batch_size), true);
    ASSERT_EQ(result.answers.size(), data.questions.size());
    for (size_t q = 0; q < result.answers.size(); ++q) {
      const FoundAnswer want = searches[q].Finish(), &got = result.answers[q];
      EXPECT_EQ(got.answer.begin, want.answer.begin);
      EXPECT_EQ(got.answer.end, want.answer.end);
      EXPECT_EQ(got.null_odds, want.null_odds);
      EXPECT_EQ(got.probabilities, want.probabilities);
    }
    const Json& metrics = result.evaluation.metrics;
    EXPECT_EQ(metrics["eval_total"], 4);
    EXPECT_EQ(metrics["eval_NoAns_total"], 1);
    for (const std::string& key : EvaluationKeys(model.config(), Task::kQuestionAnswering, {}, true))
      EXPECT_TRUE(metrics.contains(key)) << key;
    EXPECT_EQ(metrics["eval_samples"], excerpts.set.size());
    if (loss < 0) loss = metrics["eval_loss"];
    EXPECT_NEAR(metrics["eval_loss"].get<double>(), loss, 1e-6) << "a mean over excerpts, however they are batched";
  }
}

TEST(EvaluateQuestionAnswering, UnscoredThereAreOnlyAnswers) {
  const SquadData data = Data();
  FormulaAnswers model;
  const AnswerEvaluation result =
      EvaluateQuestionAnswering(model, data, ExcerptsOf(data), {}, QuietInBatchesOf(8), false);
  EXPECT_EQ(result.answers.size(), 4U);
  EXPECT_FALSE(result.evaluation.metrics.contains("eval_loss"));
  EXPECT_FALSE(result.evaluation.metrics.contains("eval_exact"));
  EXPECT_TRUE(result.evaluation.metrics.contains("eval_runtime"));
}

TEST(EvaluateQuestionAnswering, NamesTheQuestionWhereTheModelFails) {
  const SquadData data = Data();
  FormulaAnswers model;
  model.scale = std::numeric_limits<float>::infinity();
  EXPECT_THAT(ErrorOf([&] { EvaluateQuestionAnswering(model, data, ExcerptsOf(data), {}, QuietInBatchesOf(8), true); }),
              HasSubstr("question \"q1\": the model's output is not finite"));
}

TEST(AnswerFiles, HoldTextsOfTheContext) {
  const TempFolder folder;
  const SquadData data = Data();
  FormulaAnswers model;
  const AnswerEvaluation result =
      EvaluateQuestionAnswering(model, data, ExcerptsOf(data), {4, 3, true, 0}, QuietInBatchesOf(8), true);
  std::vector<FoundAnswer> answers = result.answers;
  answers[3].answer = {0, 3, 0, 0};
  WriteAnswerFiles(data, answers, true, folder.path(), "x_");
  const Json texts = ReadJsonFile(folder / "x_predictions.json");
  EXPECT_EQ(texts["q4"], "東 x");
  EXPECT_EQ(texts.size(), 4U);
  EXPECT_TRUE(texts.contains("q\"2"));
  const Json best = ReadJsonFile(folder / "x_nbest_predictions.json");
  for (size_t q = 0; q < answers.size(); ++q) {
    const Json& list = best[data.questions[q].id];
    ASSERT_EQ(list.size(), answers[q].best.size());
    EXPECT_FLOAT_EQ(list[0]["start_logit"].get<float>(), answers[q].best[0].start_logit);
    EXPECT_DOUBLE_EQ(list[0]["probability"].get<double>(), answers[q].probabilities[0]);
  }
  EXPECT_EQ(ReadJsonFile(folder / "x_null_odds.json")["q3"], answers[2].null_odds);
  WriteAnswerFiles(data, answers, false, folder.path(), "");
  EXPECT_EQ(folder.entries(), 5U) << "odds only where none is an answer";
}

}  // namespace
}  // namespace lshformer
