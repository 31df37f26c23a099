#include "eval/evaluate.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "data/small_tokenizer.h"
#include "eval/metrics.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;

// Logits that are a fixed function of the tokens alone: every figure can be computed by hand from them.
class FormulaModel : public Model {
 public:
  void set_outputs(int64_t outputs) { config_.num_labels = outputs; }
  void set_factor(float factor) { factor_ = factor; }  // of all outputs
  explicit FormulaModel(Task task, int64_t vocab_size) : Model(ModelConfig{}, task) { config_.vocab_size = vocab_size; }

  static std::vector<float> Row(int64_t classes, int32_t input) {
    std::vector<float> row(static_cast<size_t>(classes));
    for (int64_t c = 0; c < classes; ++c) row[c] = static_cast<float>(std::sin(0.7 * static_cast<double>(c) + input));
    return row;
  }

  ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) override {
    EXPECT_FALSE(options.train);
    EXPECT_FALSE(torch::GradMode::is_enabled());
    std::vector<float> rows;
    std::vector<int64_t> labels;
    const bool masked = task() == Task::kMaskedLm || task() == Task::kPretraining;
    const bool labelled = !batch.labels.classes.empty() && task() != Task::kMultipleChoice;
    const int64_t classes = masked ? config().vocab_size : config().num_labels;
    const auto add = [&](int32_t input, int64_t label) {
      const std::vector<float> row = Row(classes, input);
      rows.insert(rows.end(), row.begin(), row.end());
      labels.push_back(label);
    };
    for (size_t t = 0; masked && t < batch.tokens.ids.size(); ++t) {
      if (batch.labels.tokens[t] != kIgnoredLabel) add(batch.tokens.ids[t], batch.labels.tokens[t]);
    }
    for (int b = 0; !masked && b < batch.sequences(); ++b) {
      add(batch.tokens.ids[batch.tokens.cu_seqlens[b]], labelled ? batch.labels.classes[b] : 0);
    }
    ModelOutput output;
    if (task() == Task::kMultipleChoice) {  // a score is the first id's sine
      for (float& row : rows) row *= factor_;
      output.logits = torch::tensor(rows);
      std::vector<torch::Tensor> losses;
      for (size_t e = 0; e < batch.labels.classes.size(); ++e)
        losses.push_back(torch::cross_entropy_loss(
            output.logits.slice(0, batch.labels.cu_choices[e], batch.labels.cu_choices[e + 1]).unsqueeze(0),
            torch::tensor({int64_t{batch.labels.classes[e]}})));
      if (!losses.empty()) output.terms = {torch::stack(losses).mean()};
      return output;
    }
    output.logits = torch::tensor(rows).view({-1, classes}) * factor_;
    if (!labels.empty() && (masked || !batch.labels.classes.empty())) {
      output.loss = torch::cross_entropy_loss(output.logits, torch::tensor(labels));
      output.terms = {output.loss};
    }
    if (task() == Task::kPretraining && !batch.labels.classes.empty()) {
      std::vector<float> pairs;
      for (int b = 0; b < batch.sequences(); ++b) {
        const std::vector<float> row = Row(2, batch.tokens.cu_seqlens[b + 1] - batch.tokens.cu_seqlens[b]);
        pairs.insert(pairs.end(), row.begin(), row.end());
      }
      output.sentence_pair_logits = torch::tensor(pairs).view({-1, 2});
      const std::vector<int64_t> classes(batch.labels.classes.begin(), batch.labels.classes.end());
      output.terms.push_back(torch::cross_entropy_loss(output.sentence_pair_logits, torch::tensor(classes)));
    }
    if (!batch.labels.values.empty()) {
      output.loss = torch::mse_loss(output.logits.squeeze(1), torch::tensor(batch.labels.values));
      output.terms = {output.loss};
    }
    if (task() == Task::kEncoder) {  // [T, 2]
      std::vector<float> hidden;
      for (const int32_t id : batch.tokens.ids) hidden.insert(hidden.end(), {1, static_cast<float>(id)});
      output.last_hidden_state = torch::tensor(hidden).view({-1, 2}) * factor_;
    }
    options.counts->pairs_computed += batch.tokens.size();
    options.counts->pairs_total += 2 * batch.tokens.size();
    return output;
  }
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return {}; }

 private:
  float factor_ = 1;
};

SequenceSet Texts(const Tokenizer& tokenizer, int sequences) {
  SequenceSet set;
  for (int i = 0; i < sequences; ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(3 + i * 7 % 40));
    for (size_t t = 0; t < ids.size(); ++t)
      ids[t] = 5 + static_cast<int32_t>((i * 31 + t * 17) % (tokenizer.vocab_size() - 5));
    set.Add(ids);
  }
  return set;
}

EvaluateOptions Quiet(int batch_size) { return {.batch_size = batch_size, .progress = false}; }

TEST(EvaluateMaskedLm, AveragesOverTokensNotOverBatches) {
  const auto tokenizer = SmallTokenizer();
  const SequenceSet set = Texts(*tokenizer, 23);
  const Masker masker(*tokenizer, 0.15, 42);
  FormulaModel model(Task::kMaskedLm, tokenizer->vocab_size());
  // By hand, token by token.
  double loss = 0, correct = 0, labelled = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    std::vector<int32_t> ids(set.ids(i).begin(), set.ids(i).end()), labels(ids.size());
    masker.Mask(0, static_cast<uint64_t>(i), ids, labels);
    for (size_t t = 0; t < ids.size(); ++t) {
      if (labels[t] == kIgnoredLabel) continue;
      const std::vector<float> row = FormulaModel::Row(tokenizer->vocab_size(), ids[t]);
      loss += CrossEntropy(row, labels[t]);
      correct += ArgMax(row) == labels[t];
      ++labelled;
    }
  }
  for (const int batch_size : {1, 4, 23, 100}) {
    const Evaluation evaluation = EvaluateMaskedLm(model, set, masker, Quiet(batch_size));
    EXPECT_NEAR(evaluation.metrics["eval_loss"], loss / labelled, 1e-5) << batch_size;
    EXPECT_NEAR(evaluation.metrics["perplexity"], std::exp(loss / labelled), 1e-3);
    EXPECT_DOUBLE_EQ(evaluation.metrics["eval_accuracy"], correct / labelled);
    EXPECT_EQ(evaluation.metrics["eval_mlm_loss"], evaluation.metrics["eval_loss"]);
    EXPECT_EQ(evaluation.metrics["eval_mlm_accuracy"], evaluation.metrics["eval_accuracy"]);
    EXPECT_EQ(evaluation.metrics["eval_samples"], 23);
    EXPECT_EQ(evaluation.labelled, static_cast<int64_t>(labelled));
    EXPECT_EQ(evaluation.counts.pairs_total, 2 * set.tokens());
    EXPECT_GT(evaluation.metrics["eval_samples_per_second"].get<double>(), 0);
    EXPECT_TRUE(evaluation.metrics.contains("eval_runtime") && evaluation.metrics.contains("eval_steps_per_second"));
  }
}

// Both kinds of pairs are scored alike; their figures have names of their own.
TEST(EvaluateMaskedLm, ScoresPairsUnderTheNameOfTheirKind) {
  const auto tokenizer = SmallTokenizer();
  SequenceSet set = Texts(*tokenizer, 23);
  double loss = 0, correct = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    set.AddLabel(i % 2);
    const std::vector<float> row = FormulaModel::Row(2, set.length(i));
    loss += CrossEntropy(row, set.label(i)) / 23;
    correct += ArgMax(row) == set.label(i);
  }
  FormulaModel model(Task::kPretraining, tokenizer->vocab_size());
  for (const auto& [kind, name, other] :
       {std::tuple(PairKind::kNextSentence, "nsp", "sop"), std::tuple(PairKind::kSentenceOrder, "sop", "nsp")}) {
    EvaluateOptions options = Quiet(4);
    options.pairs = kind;
    const Json metrics = EvaluateMaskedLm(model, set, Masker(*tokenizer, 0.5, 1), options).metrics;
    const std::string key = fmt::format("eval_{}_", name);
    EXPECT_NEAR(metrics[key + "loss"].get<double>(), loss, 1e-6);
    EXPECT_DOUBLE_EQ(metrics[key + "accuracy"].get<double>(), correct / 23);
    EXPECT_NEAR(metrics["eval_loss"].get<double>(), metrics["eval_mlm_loss"].get<double>() + loss, 1e-6);
    EXPECT_FALSE(metrics.contains(fmt::format("eval_{}_loss", other)));
  }
}

TEST(EvaluateMaskedLm, NeedsAMaskedToken) {
  const auto tokenizer = SmallTokenizer();
  SequenceSet set;
  set.Add(std::vector<int32_t>{2, 3});
  const Masker masker(*tokenizer, 0.15, 42);
  FormulaModel model(Task::kMaskedLm, tokenizer->vocab_size());
  EXPECT_THAT(ErrorOf([&] { EvaluateMaskedLm(model, set, masker, Quiet(8)); }), HasSubstr("no token was masked"));
  EXPECT_THAT(ErrorOf([&] { EvaluateMaskedLm(model, SequenceSet(), masker, Quiet(8)); }),
              HasSubstr("no examples to evaluate"));
  EXPECT_THAT(ErrorOf([&] { EvaluateMaskedLm(model, set, masker, Quiet(0)); }),
              HasSubstr("per_device_eval_batch_size: expected at least 1, got 0"));
}

TEST(EvaluateClassification, FiguresAndPredictions) {
  const auto tokenizer = SmallTokenizer();
  SequenceSet set = Texts(*tokenizer, 37), unlabelled = Texts(*tokenizer, 37);
  std::vector<int32_t> expected;
  double loss = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    set.AddLabel(i % 3 == 0);
    const std::vector<float> row = FormulaModel::Row(2, set.ids(i)[0]);
    expected.push_back(ArgMax(row));
    loss += CrossEntropy(row, set.label(i));
  }
  FormulaModel model(Task::kSequenceClassification, tokenizer->vocab_size());
  for (const int batch_size : {1, 8, 64}) {
    const Evaluation evaluation = EvaluateClassification(model, set, Quiet(batch_size));
    EXPECT_EQ(evaluation.predictions, expected);
    EXPECT_NEAR(evaluation.metrics["eval_loss"], loss / 37, 1e-6);
    EXPECT_DOUBLE_EQ(evaluation.metrics["eval_accuracy"], Accuracy(expected, set.labels()));
    EXPECT_DOUBLE_EQ(evaluation.metrics["eval_f1"], F1(expected, set.labels()));
  }
  EvaluateOptions other = Quiet(8);  // a model whose order of the labels is not the task's
  other.positive = 0;
  EXPECT_DOUBLE_EQ(EvaluateClassification(model, set, other).metrics["eval_f1"], F1(expected, set.labels(), 0));
  EXPECT_NE(F1(expected, set.labels(), 0), F1(expected, set.labels(), 1));
  const Evaluation predicted = EvaluateClassification(model, unlabelled, Quiet(8));
  EXPECT_EQ(predicted.predictions, expected);
  EXPECT_FALSE(predicted.metrics.contains("eval_loss"));
  EXPECT_FALSE(predicted.metrics.contains("eval_accuracy"));
  EXPECT_EQ(predicted.metrics["eval_samples"], 37);
}

TEST(EvaluateRegression, FiguresAndOutputs) {
  const auto tokenizer = SmallTokenizer();
  SequenceSet set = Texts(*tokenizer, 31), unlabelled = Texts(*tokenizer, 31);
  std::vector<double> outputs, labels;
  double squares = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    outputs.push_back(FormulaModel::Row(1, set.ids(i)[0])[0]);
    set.AddValue(static_cast<float>(i % 7));
    labels.push_back(static_cast<double>(i % 7));
    squares += (outputs.back() - labels.back()) * (outputs.back() - labels.back());
  }
  FormulaModel model(Task::kSequenceClassification, tokenizer->vocab_size());
  model.set_outputs(1);
  for (const int batch_size : {1, 8, 64}) {
    const Evaluation evaluation = EvaluateRegression(model, set, Quiet(batch_size));
    EXPECT_EQ(evaluation.values, outputs);
    EXPECT_NEAR(evaluation.metrics["eval_loss"], squares / 31, 1e-5);
    EXPECT_EQ(evaluation.metrics["eval_mse"], evaluation.metrics["eval_loss"]);
    EXPECT_DOUBLE_EQ(evaluation.metrics["eval_pearson"], Pearson(outputs, labels));
    EXPECT_DOUBLE_EQ(evaluation.metrics["eval_spearmanr"], Spearman(outputs, labels));
    EXPECT_DOUBLE_EQ(evaluation.metrics["eval_combined_score"],
                     (Pearson(outputs, labels) + Spearman(outputs, labels)) / 2);
  }
  const Evaluation predicted = EvaluateRegression(model, unlabelled, Quiet(8));
  EXPECT_EQ(predicted.values, outputs);
  EXPECT_FALSE(predicted.metrics.contains("eval_loss"));
  EXPECT_FALSE(predicted.metrics.contains("eval_pearson"));
  // One example has no correlation, which is no error.
  set.KeepFirst(1);
  EXPECT_TRUE(EvaluateRegression(model, set, Quiet(8)).metrics["eval_combined_score"].is_null());
}

// Mean embeddings are (1, mean id): the cosine of every pair is known.
TEST(EvaluateSimilarity, IsTheCosineOfMeans) {
  const auto tokenizer = SmallTokenizer();
  const SequenceSet set = Texts(*tokenizer, 22);
  const auto mean = [&](int64_t i) {
    double sum = 0;
    for (const int32_t id : set.ids(i)) sum += id;
    return sum / set.length(i);
  };
  std::vector<double> similarities, cosines;
  for (int64_t i = 0; i < set.size(); i += 2) {
    const double a = mean(i), b = mean(i + 1);
    cosines.push_back((1 + a * b) / std::sqrt((1 + a * a) * (1 + b * b)));
    similarities.push_back(static_cast<double>(i * 5 % 7));
  }
  FormulaModel model(Task::kEncoder, tokenizer->vocab_size());
  for (const int batch_size : {1, 3, 100}) {  // pairs fall into two batches
    const Evaluation evaluation = EvaluateSimilarity(model, set, similarities, Quiet(batch_size));
    ASSERT_EQ(evaluation.values.size(), cosines.size());
    for (size_t i = 0; i < cosines.size(); ++i) EXPECT_NEAR(evaluation.values[i], cosines[i], 1e-9);
    EXPECT_NEAR(evaluation.metrics["eval_spearmanr"], Spearman(cosines, similarities), 1e-12);
    EXPECT_EQ(evaluation.metrics["eval_pairs_fraction"], 0.5);
  }
}

// An example that is several sequences has the logits of all of them, joined: figures and loss are those of the joined.
TEST(EvaluateClassification, WindowsOfATextAreJoined) {
  const std::vector<std::vector<int32_t>> examples{{5, 9, 20}, {7}, {12, 3}};
  SequenceSet set;
  for (size_t e = 0; e < examples.size(); ++e) {
    std::vector<Encoding> windows(examples[e].size());
    for (size_t w = 0; w < windows.size(); ++w) windows[w].Push(examples[e][w], 0, 0, 1);
    set.AddChoices(windows);
    set.AddLabel(static_cast<int32_t>(e % 2));
  }
  FormulaModel model(Task::kSequenceClassification, 30);
  model.set_outputs(3);
  for (const WindowPooling pooling : {WindowPooling::kMean, WindowPooling::kMax}) {
    std::vector<torch::Tensor> joined;
    for (const std::vector<int32_t>& windows : examples) {
      std::vector<std::vector<float>> rows;
      for (const int32_t id : windows) rows.push_back(FormulaModel::Row(3, id));
      joined.push_back(torch::tensor(JoinWindows(rows, pooling)));
    }
    const torch::Tensor logits = torch::stack(joined);
    EvaluateOptions options = Quiet(2);
    options.window_pooling = pooling;
    const Evaluation evaluation = EvaluateClassification(model, set, options);
    for (int64_t e = 0; e < 3; ++e) EXPECT_EQ(evaluation.predictions[e], logits[e].argmax().item<int64_t>());
    const double loss = torch::cross_entropy_loss(logits, torch::tensor({0, 1, 0}, torch::kInt64)).item<double>();
    EXPECT_NEAR(evaluation.metrics["eval_loss"].get<double>(), loss, 1e-6);
    EXPECT_EQ(evaluation.metrics["eval_samples"], 3);
  }
}

// The first of numbers that are not finite would pass for the largest, and be counted as an answer.
TEST(Evaluate, OutputsThatAreNotFiniteAreNoAnswers) {
  const auto tokenizer = SmallTokenizer();
  SequenceSet classes = Texts(*tokenizer, 9), values = Texts(*tokenizer, 9), texts = Texts(*tokenizer, 8);
  for (int i = 0; i < 9; ++i) {
    classes.AddLabel(i % 2);
    values.AddValue(static_cast<float>(i));
  }
  const Masker masker(*tokenizer, 0.5, 42);
  FormulaModel classifier(Task::kSequenceClassification, tokenizer->vocab_size());
  FormulaModel masked(Task::kMaskedLm, tokenizer->vocab_size()), encoder(Task::kEncoder, tokenizer->vocab_size());
  for (const float factor : {NAN, INFINITY}) {
    for (FormulaModel* model : {&classifier, &masked, &encoder}) model->set_factor(factor);
    const auto refused = [](const auto& evaluate) {
      EXPECT_THAT(ErrorOf(evaluate), HasSubstr("the model's output is not finite"));
    };
    classifier.set_outputs(2);
    refused([&] { EvaluateClassification(classifier, classes, Quiet(4)); });
    classifier.set_outputs(1);
    refused([&] { EvaluateRegression(classifier, values, Quiet(4)); });
    refused([&] { EvaluateMaskedLm(masked, texts, masker, Quiet(4)); });
    refused([&] { EvaluateSimilarity(encoder, texts, std::vector<double>{1, 2, 3, 4}, Quiet(4)); });
  }
}

TEST(Evaluate, AnObserverSeesEveryForwardInOrder) {
  const auto tokenizer = SmallTokenizer();
  const SequenceSet set = Texts(*tokenizer, 10);
  FormulaModel model(Task::kEncoder, tokenizer->vocab_size());
  EvaluateOptions options = Quiet(3);
  std::vector<int32_t> seen, expected;
  options.observe = [&](const PackedBatch& batch, const ModelOutput& output) {
    seen.insert(seen.end(), batch.tokens.ids.begin(), batch.tokens.ids.end());
    EXPECT_EQ(output.last_hidden_state.size(0), batch.tokens.size());
  };
  EvaluateSimilarity(model, set, std::vector<double>{1, 2, 3, 4, 5}, options);
  for (int64_t i = 0; i < set.size(); ++i) expected.insert(expected.end(), set.ids(i).begin(), set.ids(i).end());
  EXPECT_EQ(seen, expected);
}

// What may be named as --metric_for_best_model is what the evaluations write, without sizes and times.
TEST(EvaluationKeys, AreThoseOfTheEvaluations) {
  const auto tokenizer = SmallTokenizer();
  SequenceSet classes = Texts(*tokenizer, 9), values = Texts(*tokenizer, 9);
  for (int i = 0; i < 9; ++i) {
    classes.AddLabel(i % 2);
    values.AddValue(static_cast<float>(i));
  }
  const auto same = [](const Json& metrics, std::vector<std::string> keys) {
    std::vector<std::string> written;
    for (const auto& [key, value] : metrics.items())
      if (key.find("runtime") == key.npos && key.find("samples") == key.npos && key.find("per_second") == key.npos)
        written.push_back(key);
    std::sort(written.begin(), written.end());
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(written, keys);
  };
  FormulaModel model(Task::kSequenceClassification, tokenizer->vocab_size());
  for (const bool f1 : {false, true}) {
    EvaluateOptions options = Quiet(4);
    options.f1 = f1;
    options.matthews = !f1;
    same(EvaluateClassification(model, classes, options).metrics,
         EvaluationKeys(model.config(), model.task(), options));
  }
  model.set_outputs(1);
  same(EvaluateRegression(model, values, Quiet(4)).metrics, EvaluationKeys(model.config(), model.task(), {}));
  FormulaModel masked(Task::kMaskedLm, tokenizer->vocab_size());
  same(EvaluateMaskedLm(masked, classes, Masker(*tokenizer, 0.5, 1), Quiet(4)).metrics,
       EvaluationKeys(masked.config(), masked.task(), {}));
  FormulaModel pairs(Task::kPretraining, tokenizer->vocab_size());
  for (const PairKind kind : {PairKind::kNextSentence, PairKind::kSentenceOrder}) {
    EvaluateOptions options = Quiet(4);
    options.pairs = kind;
    same(EvaluateMaskedLm(pairs, classes, Masker(*tokenizer, 0.5, 1), options).metrics,
         EvaluationKeys(pairs.config(), pairs.task(), options));
  }
}

TEST(EvaluateMultipleChoice, CountsExamplesAndNotOptions) {
  SequenceSet set, unlabelled;
  double loss = 0, correct = 0;
  for (int i = 0; i < 11; ++i) {
    std::vector<Encoding> options;
    std::vector<float> scores;
    for (int o = 0; o < 2 + i % 3; ++o) {
      options.push_back({{5 + 3 * i + o, 1}, {0, 0}, {}, false});
      scores.push_back(FormulaModel::Row(1, 5 + 3 * i + o)[0]);
    }
    set.AddChoices(options);
    unlabelled.AddChoices(options);
    set.AddLabel(i % 2);
    loss += CrossEntropy(scores, i % 2);
    correct += ArgMax(scores) == i % 2;
  }
  FormulaModel model(Task::kMultipleChoice, 100);
  model.set_outputs(1);
  for (const int batch_size : {1, 2, 4, 100}) {
    const Evaluation evaluation = EvaluateMultipleChoice(model, set, Quiet(batch_size));
    EXPECT_NEAR(evaluation.metrics["eval_loss"].get<double>(), loss / 11, 1e-6) << batch_size;
    EXPECT_DOUBLE_EQ(evaluation.metrics["eval_accuracy"].get<double>(), correct / 11);
    EXPECT_EQ(evaluation.metrics["eval_samples"], 11);
    EXPECT_EQ(evaluation.labelled, 11);
    EXPECT_EQ(EvaluateMultipleChoice(model, unlabelled, Quiet(batch_size)).predictions, evaluation.predictions);
  }
  EXPECT_FALSE(EvaluateMultipleChoice(model, unlabelled, Quiet(3)).metrics.contains("eval_accuracy"));
  model.set_factor(std::numeric_limits<float>::infinity());
  EXPECT_THAT(ErrorOf([&] { EvaluateMultipleChoice(model, set, Quiet(3)); }),
              HasSubstr("example 0: the model's output"));
}

}  // namespace
}  // namespace lshformer
