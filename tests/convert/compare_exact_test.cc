// A model beside itself under exact attention: the figures of both for every task, how near the hidden states stay, and
// what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "base/philox.h"
#include "infer/pipeline.h"
#include "jobs/evaluate.h"
#include "models/model.h"
#include "synth/synth.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

constexpr const char* kMean = "eval_cosine_to_exact_mean";
constexpr const char* kWorst = "eval_cosine_to_exact_worst";

struct Case {
  const char* name;
  Task task;
  const char* attention;
  int64_t labels;
  Names figures;  // that exact attention has too
  std::function<void(EvaluateJob&)> use_data;
};

std::string Vocabulary() {
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n,\n?\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) words += std::string(1, letter) + "\n##" + letter + "\n";
  return words;
}

// So many words of one letter, each a token.
std::string Letters(uint64_t number, int count) {
  PhiloxStream stream(StreamKey(number, 0, 0, 0, Purpose::kSynthetic));
  std::string text;
  for (int i = 0; i < count; ++i)
    text += std::string(i == 0 ? "" : " ") + static_cast<char>('a' + static_cast<char>(stream.Below(26)));
  return text;
}

std::map<std::string, Json> WithoutTimes(const Json& metrics) {
  std::map<std::string, Json> figures;
  for (const auto& [key, value] : metrics.items())
    if (key.find("runtime") == key.npos && key.find("per_second") == key.npos) figures[key] = value;
  return figures;
}

double Number(const Json& metrics, const char* key) { return metrics.at(key).get<double>(); }

class CompareExactTest : public ::testing::Test {
 protected:
  // Folders with the same weights, which are large, so that attention is not flat; `exact` has exact attention.
  struct Models {
    std::string own, exact;
  };
  Models Make(const std::string& name, Task task, const char* attention, int64_t labels = 2) const {
    const std::string vocabulary = Vocabulary();
    ModelConfig config = DefaultModelConfig("bert", "test");
    ApplyOverrides(config,
                   "hidden_size=32,num_hidden_layers=2,num_attention_heads=2,intermediate_size=48,"
                   "max_position_embeddings=160,initializer_range=0.3",
                   "test");
    config.vocab_size = std::count(vocabulary.begin(), vocabulary.end(), '\n');
    config.num_labels = labels;
    const Models models{folder_ / (name + "/own"), folder_ / (name + "/exact")};
    for (const auto& [folder, kind] : {std::pair(models.own, attention), std::pair(models.exact, "dense")}) {
      config.attention = {ParseAttentionFlag(kind)};
      SaveModel(*CreateModel(config, task, 7), folder);
    }
    for (const char* folder : {"/own", "/exact"}) folder_.Write(name + folder + "/vocab.txt", vocabulary);
    return models;
  }

  std::string Corpus() const {
    std::string text;
    for (uint64_t i = 0; i < 8; ++i) text += SyntheticDocument(/*seed=*/1, i) + "\n\n";
    return folder_.Write("corpus.txt", text);
  }
  // "sentence<TAB>label", or with a pair of sentences. labels: taken in turn.
  std::string Table(const std::string& name, const std::string& header, int texts, const Names& labels,
                    uint64_t seed = 0) const {
    std::string rows = header + "\n";
    for (uint64_t i = 0; i < 9; ++i) {
      for (int text = 0; text < texts; ++text)
        rows += Letters(100 * (seed + 1) + 2 * i + static_cast<uint64_t>(text), 40 + 3 * static_cast<int>(i)) + "\t";
      rows += labels[i % labels.size()] + "\n";
    }
    return folder_.Write(name, rows);
  }
  std::string Questions() const {
    std::string text;
    WriteSyntheticQuestions([&](std::string_view piece, int64_t) { text += piece; }, /*examples=*/4, /*words=*/30,
                            /*seed=*/1);
    return folder_.Write("questions.json", text);
  }
  std::string Choices() const {
    std::string text;
    WriteSyntheticChoices([&](std::string_view piece, int64_t) { text += piece; }, /*examples=*/4, /*seed=*/1);
    return folder_.Write("choices.jsonl", text);
  }
  std::string Mnli() const {
    const std::string header = "sentence1\tsentence2\tgold_label";
    Table("mnli/dev_matched.tsv", header, 2, {"neutral", "entailment", "contradiction"});
    Table("mnli/dev_mismatched.tsv", header, 2, {"entailment", "neutral"}, /*seed=*/1);
    return folder_ / "mnli";
  }
  std::vector<Case> Cases() const;
  // Answers with less of them, and a stride that fits beside the question.
  void AskQuestions(EvaluateJob& job) const {
    job.task = "question-answering", job.validation_file = Questions();
    job.answers.doc_stride = 32, job.answers.n_best_size = 5;
  }

  TempFolder folder_;
};

constexpr const char* kClustered = R"({"type": "clustered", "cluster": 8, "open": 1})";
constexpr const char* kReformer = R"({"type": "reformer", "chunk": 16})";

std::vector<Case> CompareExactTest::Cases() const {
  const Names masked{"eval_loss", "eval_accuracy", "eval_mlm_loss", "eval_mlm_accuracy", "perplexity"};
  const Names correlations{"eval_pearson", "eval_spearmanr", "eval_combined_score"};
  const Names answers{"eval_loss", "eval_exact", "eval_f1", "eval_HasAns_exact", "eval_HasAns_f1", "eval_AvNA"};
  const auto with = [](Names names, const Names& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  return {{"fill-mask", Task::kMaskedLm, kReformer, 2, masked,
           [this](EvaluateJob& job) { job.validation_file = Corpus(), job.max_eval_samples = 5; }},
          {"pretraining", Task::kPretraining, kClustered, 2, with(masked, {"eval_nsp_loss", "eval_nsp_accuracy"}),
           [this](EvaluateJob& job) { job.validation_file = Corpus(), job.max_eval_samples = 5; }},
          {"classes",
           Task::kSequenceClassification,
           "simhash",
           2,
           {"eval_loss", "eval_accuracy", "eval_f1", "eval_combined_score"},
           [this](EvaluateJob& job) {
             job.validation_file = Table("classes.tsv", "sentence\tlabel", 1, {"0", "1"});
           }},
          {"values", Task::kSequenceClassification, "simhash", 1, with(correlations, {"eval_loss", "eval_mse"}),
           [this](EvaluateJob& job) {
             job.validation_file = Table("values.tsv", "sentence\tlabel", 1, {"0.5", "2.25", "-1"});
           }},
          {"mnli_model",
           Task::kSequenceClassification,
           "simhash",
           3,
           {"eval_loss", "eval_accuracy", "eval_loss_mm", "eval_accuracy_mm"},
           [this](EvaluateJob& job) { job.task_name = "mnli", job.data_dir = Mnli(); }},
          {"choices",
           Task::kMultipleChoice,
           kClustered,
           2,
           {"eval_loss", "eval_accuracy"},
           [this](EvaluateJob& job) { job.validation_file = Choices(); }},
          {"answers", Task::kQuestionAnswering, "simhash", 2, with(answers, {"eval_exact_match"}),
           [this](EvaluateJob& job) { AskQuestions(job); }},
          {"answers_or_none", Task::kQuestionAnswering, kReformer, 2,
           with(answers, {"eval_best_exact", "eval_best_exact_thresh", "eval_best_f1", "eval_best_f1_thresh"}),
           [this](EvaluateJob& job) { AskQuestions(job), job.answers.version_2 = true; }},
          {"similarity", Task::kEncoder, "simhash", 2, correlations, [this](EvaluateJob& job) {
             job.task = "sentence-similarity";
             job.validation_file = Table("pairs.tsv", "sentence1\tsentence2\tlabel", 2, {"0", "3", "1.5"});
           }}};
}

// What is written is the model's own figures as without the comparison, and those that a folder of the same weights
// with exact attention has, but sizes and times. Reformer's keys are then those of its file's own key maps.
TEST_F(CompareExactTest, EveryTaskHasTheFiguresOfBoth) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    const Models models = Make(one.name, one.task, one.attention, one.labels);
    EvaluateJob job;
    one.use_data(job);
    job.batch_size = 3;
    job.model.model_name_or_path = models.exact;
    const Json exact = RunEvaluate(job);
    job.model.model_name_or_path = models.own;
    std::map<std::string, Json> expected = WithoutTimes(RunEvaluate(job));
    EXPECT_TRUE(expected.contains("eval_pairs_fraction"));
    EXPECT_NE(expected[one.figures[0]], exact.at(one.figures[0])) << "the two attentions are the same";
    for (const std::string& figure : one.figures) {
      ASSERT_TRUE(exact.contains(figure)) << figure;
      EXPECT_FALSE(expected.contains(figure + "_exact")) << figure;
      expected[figure + "_exact"] = exact[figure];
    }
    job.compare_exact = true;
    const Json compared = RunEvaluate(job);
    std::map<std::string, Json> both = WithoutTimes(compared);
    EXPECT_LT(Number(compared, kMean), 1 - 1e-6);
    EXPECT_LE(Number(compared, kWorst), Number(compared, kMean));
    EXPECT_GE(Number(compared, kWorst), -1);
    both.erase(kMean), both.erase(kWorst);
    EXPECT_EQ(both, expected);
    EXPECT_FALSE(compared.contains("eval_runtime_exact") || compared.contains("eval_runtime_mm_exact"));
  }
}

TEST_F(CompareExactTest, TheCosineIsThatOfMeanEmbeddings) {
  const Models models = Make("model", Task::kSequenceClassification, "simhash");
  constexpr uint64_t kTexts = 10;
  std::vector<TextInput> texts;
  std::string rows = "sentence\tlabel\n";
  for (uint64_t i = 0; i < kTexts; ++i) {
    texts.push_back({Letters(i, 20 + 9 * static_cast<int>(i))});
    rows += texts.back().text + (i % 2 == 0 ? "\t0\n" : "\t1\n");
  }
  PredictOptions options;
  options.task = PredictTask::kFeatureExtraction;
  options.embedding.pooling = Pooling::kMean;
  const auto own = Pipeline::Load(models.own, "", options).Embed(texts);
  const auto exact = Pipeline::Load(models.exact, "", options).Embed(texts);
  double sum = 0, worst = 1;
  for (size_t i = 0; i < kTexts; ++i) {
    ASSERT_TRUE(own[i].ok() && exact[i].ok());
    double dot = 0, a = 0, b = 0;
    for (size_t k = 0; k < own[i].value.values.size(); ++k) {
      const double x = own[i].value.values[k], y = exact[i].value.values[k];
      dot += x * y, a += x * x, b += y * y;
    }
    sum += dot / std::sqrt(a * b);
    worst = std::min(worst, dot / std::sqrt(a * b));
  }
  EvaluateJob job;
  job.model.model_name_or_path = models.own;
  job.validation_file = folder_.Write("texts.tsv", rows);
  job.compare_exact = true;
  for (const int batch_size : {1, 4}) {
    job.batch_size = batch_size;
    const Json metrics = RunEvaluate(job);
    EXPECT_NEAR(Number(metrics, kMean), sum / kTexts, 1e-6) << batch_size;
    EXPECT_NEAR(Number(metrics, kWorst), worst, 1e-6);
    EXPECT_LT(Number(metrics, kWorst), 1 - 1e-6);
    EXPECT_LT(Number(metrics, "eval_pairs_fraction"), 1);
  }
}

TEST_F(CompareExactTest, TheSequencesOfBothOfMnlisSetsCount) {
  EvaluateJob job;
  job.model.model_name_or_path = Make("model", Task::kSequenceClassification, "simhash", 3).own;
  job.task_name = "mnli", job.data_dir = Mnli();
  job.compare_exact = true;
  const Json both = RunEvaluate(job);
  job.data_dir.clear();
  job.validation_file = folder_ / "mnli/dev_matched.tsv";
  const Json first = RunEvaluate(job);
  job.validation_file = folder_ / "mnli/dev_mismatched.tsv";
  const Json second = RunEvaluate(job);
  ASSERT_EQ(first.at("eval_samples"), second.at("eval_samples"));
  EXPECT_NEAR(Number(both, kMean), (Number(first, kMean) + Number(second, kMean)) / 2, 1e-9);
  EXPECT_NEAR(Number(both, kWorst), std::min(Number(first, kWorst), Number(second, kWorst)), 1e-9);
  EXPECT_EQ(both.at("eval_loss_mm_exact"), second.at("eval_loss_exact"));
}

// Clusters of 16 with 4 of them opened hash from 81 tokens on.
TEST_F(CompareExactTest, WhatIsTooShortToBeHashedIsExact) {
  EvaluateJob job;
  job.model.model_name_or_path = Make("model", Task::kSequenceClassification, "clustered").own;
  job.validation_file = Table("classes.tsv", "sentence\tlabel", 1, {"0", "1"});
  job.compare_exact = true;
  const Json metrics = RunEvaluate(job);
  EXPECT_NEAR(Number(metrics, kMean), 1, 1e-12);
  EXPECT_NEAR(Number(metrics, kWorst), 1, 1e-12);
  EXPECT_DOUBLE_EQ(Number(metrics, "eval_pairs_fraction"), 1);
  for (const char* figure : {"eval_loss", "eval_accuracy", "eval_f1", "eval_combined_score"})
    EXPECT_EQ(metrics.at(figure), metrics.at(std::string(figure) + "_exact")) << figure;
}

TEST_F(CompareExactTest, TheAnswersInTheFolderAreTheModelsOwn) {
  const Models models = Make("model", Task::kQuestionAnswering, "simhash");
  EvaluateJob job;
  AskQuestions(job);
  const auto answers = [&](const std::string& model, bool compare_exact, const char* folder) {
    job.model.model_name_or_path = model;
    job.compare_exact = compare_exact;
    job.output_dir = folder_ / folder;
    const Json metrics = RunEvaluate(job);
    EXPECT_EQ(ReadJsonFile(job.output_dir + "/eval_results.json"), metrics);
    EXPECT_EQ(metrics.contains("eval_exact_exact"), compare_exact);
    return folder_.Read(std::string(folder) + "/nbest_predictions.json");
  };
  const std::string own = answers(models.own, false, "own_answers");
  EXPECT_EQ(answers(models.own, true, "compared_answers"), own);
  EXPECT_NE(answers(models.exact, false, "exact_answers"), own) << "the two attentions answer the same";
}

TEST_F(CompareExactTest, TheDataIsReadOnce) {
  EvaluateJob job;
  job.model.model_name_or_path = Make("model", Task::kSequenceClassification, "simhash").own;
  job.validation_file = Table("classes.tsv", "sentence\tlabel", 1, {"0", "1"});
  job.max_seq_length = 16;
  job.compare_exact = true;
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const std::string error = ErrorOf([&] { RunEvaluate(job); });
  spdlog::set_default_logger(before);
  EXPECT_EQ(error, "(nothing thrown)");
  const std::string lines = log.str();
  EXPECT_THAT(lines, HasSubstr("classes.tsv: 9 of 9 texts were cut"));
  EXPECT_EQ(lines.find("were cut"), lines.rfind("were cut")) << lines;
}

TEST_F(CompareExactTest, WhereThereIsNothingToCompareItIsRefused) {
  const Models models = Make("model", Task::kSequenceClassification, "simhash");
  EvaluateJob job;
  job.validation_file = Table("classes.tsv", "sentence\tlabel", 1, {"0", "1"});
  job.compare_exact = true;
  const auto refused = [&] { return ErrorOf([&] { RunEvaluate(job); }); };
  const auto nothing = AllOf(HasSubstr("compare_exact: there is nothing to compare"),
                             HasSubstr("has exact attention; attention names another"));
  job.model.model_name_or_path = models.exact;
  EXPECT_THAT(refused(), nothing);
  job.model.attention.attention = "simhash";
  EXPECT_EQ(refused(), "(nothing thrown)");
  job.model.model_name_or_path = models.own;
  job.model.attention.attention = "dense";
  EXPECT_THAT(refused(), nothing);
  folder_.Write("bidaf/config.json", R"({"model_type": "bidaf"})");
  folder_.Write("bidaf/vocab.txt", Vocabulary());
  job = EvaluateJob();
  job.model.model_name_or_path = folder_ / "bidaf";
  job.task = "question-answering", job.validation_file = Questions();
  job.compare_exact = true;
  EXPECT_THAT(refused(), HasSubstr("compare_exact: a model of type \"bidaf\" has no self-attention"));
}

}  // namespace
}  // namespace lshformer
