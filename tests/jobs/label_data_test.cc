#include "jobs/data/label_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "data/small_tokenizer.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class LabelDataTest : public ::testing::Test {
 protected:
  TrainOptions Options(const std::vector<std::string>& train_files) const {
    TrainOptions options;
    options.train_files = train_files;
    options.folder.output_dir = folder_ / "run";
    return options;
  }
  TempFolder folder_;
  const std::string reds_ = folder_.Write("reds.tsv", "text\tlabel\nrose\tred\nblood\tred\n");
  const std::string blues_ = folder_.Write(
      "blues.jsonl", "{\"text\": \"sky\", \"label\": \"blue\"}\n{\"text\": \"sea\", \"label\": \"blue\"}\n");
};

TEST_F(LabelDataTest, LabelsAreThoseOfAllFiles) {
  const LabelTables tables = ReadLabelTables(Options({reds_, blues_}), /*do_eval=*/false);
  EXPECT_THAT(tables.labels, ElementsAre("blue", "red"));
  EXPECT_EQ(tables.train.size(), 2u);
  EXPECT_THAT(ErrorOf([&] { ReadLabelTables(Options({reds_}), false); }),
              HasSubstr("reds.tsv: expected at least two different labels, got only \"red\""));
}

TEST_F(LabelDataTest, MaxTrainSamplesCountsOverFilesAndKeepsAllLabels) {
  TrainOptions options = Options({reds_, blues_});
  options.max_train_samples = 3;
  LabelTables tables = ReadLabelTables(options, false);
  ASSERT_EQ(tables.train.size(), 2u);
  EXPECT_EQ(tables.train[0].rows() + tables.train[1].rows(), 3);
  options.max_train_samples = 2;
  tables = ReadLabelTables(options, false);
  ASSERT_EQ(tables.train.size(), 1u);
  EXPECT_THAT(tables.labels, ElementsAre("blue", "red"));
}

// A model fine-tuned on "red" = 0, "blue" = 1 goes on with that order; another set of labels is learned anew.
TEST_F(LabelDataTest, AModelKeepsItsOwnOrderOfTheSameLabels) {
  LabelTables tables = ReadLabelTables(Options({reds_, blues_}), false);
  ModelConfig config;
  config.labels = {"red", "blue"};
  AgreeOnLabels(tables, config);
  EXPECT_THAT(tables.labels, ElementsAre("red", "blue"));
  tables = ReadLabelTables(Options({reds_, blues_}), false);
  config.labels = {"red", "blue", "green"};
  AgreeOnLabels(tables, config);
  EXPECT_THAT(config.labels, ElementsAre("blue", "red"));
  EXPECT_EQ(config.num_labels, 2);
  EXPECT_EQ(config.problem_type, "single_label_classification");
}

// Trained on, but not in silence: with the first place and their number, whatever the kind of file.
TEST_F(LabelDataTest, EmptyTextsAreCounted) {
  const auto tokenizer = testing::SmallTokenizer();
  const auto warning = [&](const std::string& name, const std::string& rows) {
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
    spdlog::default_logger()->set_level(spdlog::level::warn);
    const std::vector<TextTable> tables{ReadTextTable(folder_.Write(name, rows), /*need_label=*/false)};
    const SequenceSet set = EncodeTables(tables, /*known=*/nullptr, *tokenizer, {.max_seq_length = 16});
    spdlog::set_default_logger(before);
    EXPECT_EQ(set.size(), tables[0].rows());
    return log.str();
  };
  EXPECT_THAT(warning("a.csv", "text,id\na,0\n\"\",1\n\" \",2\nb,3\n"),
              HasSubstr("a.csv:3: the text is empty, that of 2 of 4 rows\n"));
  EXPECT_THAT(warning("a.tsv", "text\tid\n\t0\na\t1\n"), HasSubstr("a.tsv:2: the text is empty\n"));
  EXPECT_THAT(warning("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n"), HasSubstr("a.jsonl:2: the text is empty\n"));
  EXPECT_THAT(warning("p.tsv", "p\tq\na\tb\n\tb\n"), HasSubstr("p.tsv:3: the text is empty\n"));
  EXPECT_EQ(warning("p.tsv", "p\tq\na\tb\na\t\n"), "") << "an empty second text is a text";
}

TEST_F(LabelDataTest, SetsOfLabels) {
  TrainOptions options = Options({folder_.Write("a.jsonl", R"({"text": "x", "labels": ["b"]})"),
                                  folder_.Write("b.jsonl", R"({"text": "y", "labels": ["a", "c"]})")});
  options.do_eval = true;
  options.validation_file = folder_.Write("dev.jsonl", R"({"text": "x", "labels": []})");
  LabelTables tables = ReadLabelTables(options, /*do_eval=*/true);
  EXPECT_TRUE(tables.multi_label);
  EXPECT_THAT(tables.labels, ElementsAre("a", "b", "c"));
  ModelConfig config;
  AgreeOnLabels(tables, config);
  EXPECT_EQ(config.problem_type, "multi_label_classification");
  EXPECT_THAT(config.labels, ElementsAre("a", "b", "c"));
  options.train_files.push_back(blues_);
  EXPECT_THAT(ErrorOf([&] { ReadLabelTables(options, true); }), HasSubstr("blues.jsonl:1: no column \"labels\""));
  options.train_files = {blues_, folder_ / "a.jsonl"};
  EXPECT_THAT(ErrorOf([&] { ReadLabelTables(options, true); }), HasSubstr("a.jsonl:1: no column \"label\""));
}

// A file of predictions has a row a line, and commas between the labels of a row that has several.
TEST_F(LabelDataTest, LabelsThatAFileOfPredictionsCannotHold) {
  LabelTables tables;
  const auto error = [&](const char* label, bool several) {
    tables.labels = {"x", label};
    tables.multi_label = several;
    return ErrorOf([&] { RequireWritable(tables); });
  };
  EXPECT_THAT(error("y,z", true), StartsWith("do_predict: the label \"y,z\" has a comma"));
  EXPECT_THAT(error("y\nz", true), HasSubstr("has a line end"));
  EXPECT_THAT(error("y\nz", false), HasSubstr("has a line end"));
  EXPECT_EQ(error("y,z", false), "(nothing thrown)");
}

// Flags are in the order of a checkpoint's labels, where there are as many.
TEST_F(LabelDataTest, FlagsHaveTheNamesOfTheModel) {
  const TrainOptions options = Options({folder_.Write("a.jsonl", R"({"text": "x", "labels": [0, 1, 1]})")});
  LabelTables tables = ReadLabelTables(options, false);
  ModelConfig config;
  config.labels = {"red", "blue", "green"};
  config.num_labels = 3;
  AgreeOnLabels(tables, config);
  EXPECT_THAT(tables.labels, ElementsAre("red", "blue", "green"));
  EXPECT_THAT(LabelFlags(tables.train[0], tables.labels), ElementsAre(ElementsAre(0, 1, 1)));
  tables = ReadLabelTables(options, false);
  ModelConfig fresh;
  AgreeOnLabels(tables, fresh);
  EXPECT_THAT(fresh.labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
}

// HF run_glue's rule, unless --do_regression says otherwise.
TEST_F(LabelDataTest, RealNumbersAreValues) {
  const std::string scores = folder_.Write("scores.tsv", "text\tlabel\na\t1\nb\t2.5\n");
  const std::string more =
      folder_.Write("more.jsonl", "{\"text\": \"c\", \"label\": 3.0}\n{\"text\": \"d\", \"label\": 4}\n");
  TrainOptions options = Options({scores, more});
  options.validation_file = folder_.Write("dev.tsv", "text\tlabel\na\tnan\n");
  LabelTables tables = ReadLabelTables(options, false);
  EXPECT_TRUE(tables.regression);
  EXPECT_THAT(tables.labels, IsEmpty());
  ModelConfig config;
  config.labels = {"red", "blue"};
  AgreeOnLabels(tables, config);
  EXPECT_EQ(config.num_labels, 1);
  EXPECT_EQ(config.problem_type, "regression");
  EXPECT_EQ(config.label_name(0), "LABEL_0");
  config.labels = {"similarity"};
  AgreeOnLabels(tables, config);
  EXPECT_EQ(config.label_name(0), "similarity");

  folder_.Write("tokenizer/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  const auto tokenizer = Tokenizer::Load(folder_ / "tokenizer");
  EXPECT_THAT(Encode(tables, *tokenizer, 8).train.values(), ElementsAre(1, 2.5, 3, 4));
  EXPECT_THAT(ErrorOf([&] { Encode(ReadLabelTables(options, true), *tokenizer, 8); }),
              HasSubstr("dev.tsv:2: label \"nan\": expected a finite number"));

  options.do_regression = false;
  EXPECT_THAT(ReadLabelTables(options, false).labels, ElementsAre("1", "2.5", "3.0", "4"));
  options = Options({folder_.Write("stars.tsv", "text\tlabel\na\t1\nb\t2\n")});
  EXPECT_FALSE(ReadLabelTables(options, false).regression);
  options.do_regression = true;
  EXPECT_TRUE(ReadLabelTables(options, false).regression);
}

TEST_F(LabelDataTest, TheFirstShareOfAllRowsValidates) {
  TrainOptions options = Options({reds_, blues_});
  options.validation_split_percentage = 75;
  const LabelTables tables = ReadLabelTables(options, true);
  ASSERT_EQ(tables.validation.size(), 2u);
  EXPECT_THAT(tables.validation[0].texts, ElementsAre("rose", "blood"));
  EXPECT_THAT(tables.validation[1].texts, ElementsAre("sky"));
  EXPECT_THAT(tables.validation[1].labels, ElementsAre("blue"));
  ASSERT_EQ(tables.train.size(), 1u);
  EXPECT_THAT(tables.train[0].texts, ElementsAre("sea"));
  EXPECT_THAT(tables.train[0].lines, ElementsAre(2));
  EXPECT_THAT(tables.labels, ElementsAre("blue", "red"));
  options.max_eval_samples = 1;
  EXPECT_THAT(ReadLabelTables(options, true).validation[0].texts, ElementsAre("rose"));
  options = Options({folder_.Write("one.tsv", "text\tlabel\nrose\t1\n")});
  options.task_name = "sst2";
  options.validation_split_percentage = 5;
  EXPECT_THAT(ErrorOf([&] { ReadLabelTables(options, true); }),
              HasSubstr("validation_split_percentage: the training data has 1 row, too few to split"));
}

TEST_F(LabelDataTest, ValidationHasTheColumnsOfTheTrainingFile) {
  TrainOptions options = Options({folder_.Write("train.tsv", "a\tb\tlabel\nx\ty\t0\nz\tw\t1\n")});
  options.validation_file = folder_.Write("dev.tsv", "b\ta\tlabel\ny\tx\t1\n");
  const LabelTables tables = ReadLabelTables(options, true);
  EXPECT_THAT(tables.validation[0].texts, ElementsAre("x"));
  EXPECT_THAT(tables.validation[0].pairs, ElementsAre("y"));
  options.validation_file = folder_.Write("other.tsv", "b\tlabel\ny\t1\n");
  EXPECT_THAT(ErrorOf([&] { ReadLabelTables(options, true); }), HasSubstr("other.tsv"));
}

TEST_F(LabelDataTest, AnUnknownLabelIsNamedWithItsPlace) {
  TrainOptions options = Options({reds_, blues_});
  options.validation_file = folder_.Write("dev.tsv", "text\tlabel\ngrass\tgreen\n");
  LabelTables tables = ReadLabelTables(options, true);
  EXPECT_THAT(ErrorOf([&] { LabelIds(tables.validation[0], tables.labels); }), HasSubstr("dev.tsv:2"));
}

TEST_F(LabelDataTest, ContradictingFlagsAreNamed) {
  const auto wrong = [&](void (*change)(TrainOptions&)) {
    TrainOptions options = Options({reds_});
    change(options);
    return ErrorOf([&] { CheckLabelSource(options); });
  };
  EXPECT_EQ(wrong([](TrainOptions&) {}), "(nothing thrown)");
  EXPECT_THAT(wrong([](TrainOptions& o) { o.train_files.clear(); }), StartsWith("train_file"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.data_dir = "glue"; }), StartsWith("data_dir"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.data_dir = "glue", o.task_name = "sst2"; }), StartsWith("train_file"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.do_eval = true; }), StartsWith("do_eval"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.training.eval_steps = 5; }), StartsWith("do_eval"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.do_predict = true; }), StartsWith("do_predict"));
  EXPECT_EQ(wrong([](TrainOptions& o) { o.do_eval = true, o.validation_split_percentage = 5; }), "(nothing thrown)");
  const std::string split = "validation_split_percentage: ";
  EXPECT_EQ(wrong([](TrainOptions& o) { o.validation_split_percentage = 5; }), split + "needs do_eval or eval_steps");
  EXPECT_EQ(wrong([](TrainOptions& o) { o.validation_split_percentage = 5, o.validation_file = "d.tsv"; }),
            split + "is instead of validation_file");
  EXPECT_THAT(wrong([](TrainOptions& o) {
                o.data_dir = "glue", o.task_name = "sst2", o.train_files.clear(), o.validation_split_percentage = 5;
              }),
              StartsWith(split + "data_dir glue has"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.task = "question-answering", o.task_name = "sst2"; }),
              StartsWith("task_name: is for task text-classification"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.test_file = "t.tsv"; }), StartsWith("test_file: needs do_predict"));
  EXPECT_THAT(wrong([](TrainOptions& o) { o.task_name = "stsb", o.do_regression = false; }),
              StartsWith("do_regression false: task_name stsb decides otherwise"));
}

TEST_F(LabelDataTest, PredictionsAreNamedAfterTheTask) {
  EXPECT_EQ(PredictionsPath("run", nullptr), "run/predict_results.txt");
  EXPECT_EQ(PredictionsPath("run", &FindGlueTask("mnli-mm")), "run/predict_results_mnli-mm.txt");
}

class GlueDataTest : public LabelDataTest {
 protected:
  TrainOptions Glue(const char* task, const std::vector<std::string>& train_files = {}) const {
    TrainOptions options = Options(train_files);
    options.task_name = task;
    if (train_files.empty()) options.data_dir = folder_ / "glue";
    return options;
  }
  // MNLI's columns that are read, and one that looks like a label and is none.
  static std::string Premises(const std::string& rows) { return "sentence1\tsentence2\tlabel1\tgold_label\n" + rows; }
};

// Checkpoints write "CONTRADICTION", files "contradiction".
TEST_F(GlueDataTest, ACheckpointsOrderWinsWhateverItsCase) {
  folder_.Write("glue/train.tsv", Premises("a\tb\tneutral\tentailment\nc\td\tneutral\t2\n"));
  for (const std::vector<std::string>& own : {std::vector<std::string>{"contradiction", "entailment", "neutral"},
                                              {"CONTRADICTION", "Entailment", "NEUTRAL"}}) {
    LabelTables tables = ReadLabelTables(Glue("mnli"), false);
    EXPECT_THAT(tables.labels, ElementsAre("entailment", "neutral", "contradiction"));
    ModelConfig config;
    config.labels = own;
    config.num_labels = 3;
    AgreeOnLabels(tables, config);
    EXPECT_EQ(config.labels, own) << "kept as they are written";
    EXPECT_THAT(tables.labels, ElementsAre("contradiction", "entailment", "neutral"));
    EXPECT_THAT(LabelIds(tables.train[0], tables.labels), ElementsAre(1, 0)) << "2 is the task's contradiction";
  }
  LabelTables tables = ReadLabelTables(Glue("mnli"), false);
  ModelConfig config;
  config.labels = {"LABEL_0", "LABEL_1", "LABEL_2"};
  config.num_labels = 3;
  AgreeOnLabels(tables, config);
  EXPECT_THAT(config.labels, ElementsAre("entailment", "neutral", "contradiction"));
}

TEST_F(GlueDataTest, AModelsLabelsAreTheTasksByNameOrByPlace) {
  ModelConfig config;
  const auto labels = [&](const char* task, std::vector<std::string> own) {
    config.num_labels = static_cast<int64_t>(own.size());
    config.labels = std::move(own);
    return LabelsOfModel(config, task == nullptr ? nullptr : &FindGlueTask(task), "DIR");
  };
  EXPECT_THAT(labels(nullptr, {"x", "y"}), ElementsAre("x", "y"));
  EXPECT_THAT(labels("rte", {"not_entailment", "ENTAILMENT"}), ElementsAre("not_entailment", "entailment"));
  EXPECT_THAT(labels("rte", {"LABEL_0", "LABEL_1"}), ElementsAre("entailment", "not_entailment"));
  EXPECT_THAT(labels("sst2", {"negative", "neutral", "positive"}), ElementsAre("negative", "neutral", "positive"));
  EXPECT_THAT(labels("sst2", {"BAD", "GOOD"}), ElementsAre("negative", "positive")) << "with a warning";
  EXPECT_THAT(
      ErrorOf([&] {
        labels("rte", {"entailment", "neutral", "contradiction"});
      }),
      HasSubstr("task_name rte: its labels are entailment, not_entailment, but DIR has 3: entailment, neutral"));
}

// F1 is that of the task's second class, wherever the model has it.
TEST_F(GlueDataTest, F1IsThatOfTheTasksClass) {
  LabelTables tables;
  tables.task = &FindGlueTask("mrpc");
  EvaluateOptions options;
  for (const int32_t place : {0, 1}) {
    tables.labels = {"not_equivalent", "not_equivalent"};
    tables.labels[static_cast<size_t>(place)] = "equivalent";
    ChooseMetrics(tables, options);
    EXPECT_EQ(options.positive, place);
  }
  EXPECT_TRUE(options.f1);
  tables.task = &FindGlueTask("cola");
  ChooseMetrics(tables, options);
  EXPECT_FALSE(options.f1);
  EXPECT_TRUE(options.matthews);
}

TEST_F(GlueDataTest, FilesGivenByNameHaveTheTasksColumns) {
  const std::string header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
  TrainOptions options = Glue("mrpc", {folder_.Write("a.tsv", header + "1\t7\t8\tp\tq\n0\t7\t8\tr\ts\n")});
  options.validation_file = folder_.Write("b.tsv", header + "0\t7\t8\tt\tu\n");
  options.test_file = folder_.Write("c.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tv\tw\n");
  options.do_predict = true;
  const LabelTables tables = ReadLabelTables(options, true);
  EXPECT_THAT(tables.train[0].texts, ElementsAre("p", "r"));
  EXPECT_THAT(tables.train[0].labels, ElementsAre("equivalent", "not_equivalent"));
  EXPECT_THAT(tables.validation[0].pairs, ElementsAre("u"));
  EXPECT_THAT(tables.test[0].texts, ElementsAre("v"));
  // Files of one's own have the columns of the training file.
  TrainOptions own = Glue("sst2", {folder_.Write("d.tsv", "x\tlabel\ty\na\t1\tb\n")});
  own.validation_file = folder_.Write("e.tsv", "y\tx\tlabel\nb\ta\t0\n");
  EXPECT_THAT(ReadLabelTables(own, true).validation[0].texts, ElementsAre("a"));
}

TEST_F(GlueDataTest, MnliHasMismatchedFilesToo) {
  folder_.Write("glue/train.tsv", Premises("a\tb\tx\tentailment\n"));
  folder_.Write("glue/dev_matched.tsv", Premises("c\td\tx\tneutral\ne\tf\tx\tneutral\n"));
  TrainOptions options = Glue("mnli");
  EXPECT_THAT(ErrorOf([&] { ReadLabelTables(options, true); }), HasSubstr("dev_mismatched.tsv"));
  const std::string mismatched =
      folder_.Write("glue/dev_mismatched.tsv", Premises("g\th\tx\tneutral\ni\tj\tx\tneutral\n"));
  folder_.Write("glue/test_matched.tsv", "index\tsentence1\tsentence2\n0\tk\tl\n");
  folder_.Write("glue/test_mismatched.tsv", "index\tsentence1\tsentence2\n0\tm\tn\n");
  options.do_predict = true;
  options.max_eval_samples = 1;
  LabelTables tables = ReadLabelTables(options, true);
  EXPECT_THAT(tables.validation[0].texts, ElementsAre("c"));
  EXPECT_THAT(tables.validation_other[0].texts, ElementsAre("g")) << "max_eval_samples is for each";
  EXPECT_THAT(tables.test_other[0].texts, ElementsAre("m"));
  // A file given instead of the folder's is the only one; so are those of mnli-mm, and of a split.
  options.validation_file = mismatched;
  EXPECT_THAT(ReadLabelTables(options, true).validation_other, IsEmpty());
  options = Glue("mnli-mm");
  tables = ReadLabelTables(options, true);
  EXPECT_THAT(tables.validation[0].texts, ElementsAre("g", "i"));
  EXPECT_THAT(tables.validation_other, IsEmpty());
}

TEST(OtherMetrics, HaveHuggingFacesSuffix) {
  Json metrics{{"eval_accuracy", 0.5}};
  AddOther({{"eval_accuracy", 0.25}, {"eval_samples", 7}}, metrics);
  EXPECT_EQ(metrics, Json({{"eval_accuracy", 0.5}, {"eval_accuracy_mm", 0.25}, {"eval_samples_mm", 7}}));
  EXPECT_THAT(WithOther({"eval_loss", "eval_accuracy"}),
              ElementsAre("eval_loss", "eval_accuracy", "eval_loss_mm", "eval_accuracy_mm"));
}

}  // namespace
}  // namespace lshformer
