#include "eval/score_file.h"

#include <gtest/gtest.h>

#include "eval/metrics.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr const char* kDev = "sentence\tlabel\na\t1\nb\t0\nc\t1\nd\t0\n";

class ScoreFile : public ::testing::Test {
 protected:
  Json Score(const std::string& predictions, const std::string& references = kDev, const std::string& task = "sst2") {
    return ScoreClassificationFiles(FindGlueTask(task), folder_.Write("predictions.txt", predictions),
                                    folder_.Write("dev.tsv", references));
  }
  std::string Error(const std::string& predictions) {
    return ErrorOf([&] { Score(predictions); });
  }
  TempFolder folder_;
};

TEST_F(ScoreFile, LabelsByNumberOrNameInAnyOrder) {
  const Json scores = Score("index\tprediction\n0\t1\n1\t0\n2\t1\n3\t1\n");
  EXPECT_EQ(scores["accuracy"], 0.75);
  EXPECT_EQ(Score("index\tprediction\n3\tpositive\n2\t1\n0\tpositive\n1\tnegative\n"), scores);
}

TEST_F(ScoreFile, F1WhereTheTaskHasIt) {
  const std::string dev = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n1\t1\t2\ta\tb\n0\t1\t2\ta\tb\n";
  const Json scores = Score("index\tprediction\n0\t1\n1\t0\n2\t1\n", dev, "mrpc");
  EXPECT_DOUBLE_EQ(scores["accuracy"], 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores["f1"], 0.5);
  EXPECT_DOUBLE_EQ(scores["acc_and_f1"], (1.0 / 3 + 0.5) / 2);
  // Labels 1, 1, 0 and predictions 1, 0, 1: every correlation of two classes is the same number.
  for (const char* key : {"matthews_correlation", "pearson", "spearmanr"})
    EXPECT_NEAR(scores[key].get<double>(), -0.5, 1e-15) << key;
  const Json constant = Score("index\tprediction\n0\t1\n1\t1\n2\t1\n", dev, "mrpc");
  EXPECT_EQ(constant["matthews_correlation"], 0);
  EXPECT_TRUE(constant["pearson"].is_null());
  EXPECT_TRUE(constant["spearmanr"].is_null());
}

TEST_F(ScoreFile, ReadsWhatItWrites) {
  const std::string path = folder_ / "predict_results_sst2.txt";
  WritePredictions(path, std::vector<int32_t>{1, 0, 0, 0}, {"negative", "positive"});
  EXPECT_EQ(folder_.Read("predict_results_sst2.txt"),
            "index\tprediction\n0\tpositive\n1\tnegative\n2\tnegative\n3\tnegative\n");
  EXPECT_EQ(ScoreClassificationFiles(FindGlueTask("sst2"), path, folder_.Write("dev.tsv", kDev))["accuracy"], 0.75);
}

TEST_F(ScoreFile, ValuesOfARegression) {
  const std::string dev = "sentence1\tsentence2\tscore\na\tb\t5.000\nc\td\t0.5\ne\tf\t3\n";
  const Json scores = Score("index\tprediction\n2\t2.5\n0\t4\n1\t1\n", dev, "stsb");
  EXPECT_NEAR(scores["spearmanr"].get<double>(), 1, 1e-15);
  const std::vector<double> x{4, 1, 2.5}, y{5, 0.5, 3};
  EXPECT_DOUBLE_EQ(scores["pearson"], Pearson(x, y));
  EXPECT_DOUBLE_EQ(scores["corr"], (1 + Pearson(x, y)) / 2);
  EXPECT_DOUBLE_EQ(scores["mse"], (1 + 0.25 + 0.25) / 3);
  EXPECT_FALSE(scores.contains("accuracy"));
  // Values that float32 does not tell apart; SciPy: 1.
  const std::string near = "sentence1\tsentence2\tscore\na\tb\t1.00000001\nc\td\t1.00000002\ne\tf\t1.0\n";
  EXPECT_NEAR(Score("index\tprediction\n0\t2\n1\t3\n2\t1\n", near, "stsb")["spearmanr"].get<double>(), 1, 1e-15);
  EXPECT_TRUE(Score("index\tprediction\n0\t1\n1\t1\n2\t1\n", dev, "stsb")["corr"].is_null());
  for (const char* bad : {"", "nan", "inf", "high", "1 "})
    EXPECT_THAT(ErrorOf([&] { Score(std::string("index\tprediction\n0\t") + bad + "\n", dev, "stsb"); }),
                HasSubstr(std::string("predictions.txt:2: prediction \"") + bad + "\": expected a finite number"));
  EXPECT_THAT(ErrorOf([&] { Score("index\tprediction\n0\t1\n", "sentence1\tsentence2\tscore\na\tb\tnone\n", "stsb"); }),
              HasSubstr("dev.tsv:2: label \"none\": expected a finite number"));
  const std::string path = folder_ / "predict_results_stsb.txt";
  WriteValues(path, std::vector<double>{1.23456, -0.5, 12});
  EXPECT_EQ(folder_.Read("predict_results_stsb.txt"), "index\tprediction\n0\t1.235\n1\t-0.500\n2\t12.000\n");
}

// Names where the benchmark wants names, else the task's numbers, whatever order the model has its labels in.
TEST_F(ScoreFile, SubmissionsAreWhatTheBenchmarkTakes) {
  const auto submit = [&](const char* task, const std::vector<std::string>& labels) {
    WriteSubmission(folder_.path(), FindGlueTask(task), std::vector<int32_t>{1, 0}, labels);
    return folder_.Read(FindGlueTask(task).submission + ".tsv");
  };
  EXPECT_EQ(submit("sst2", {"negative", "positive"}), "index\tprediction\n0\t1\n1\t0\n");
  EXPECT_EQ(submit("sst2", {"positive", "negative"}), "index\tprediction\n0\t0\n1\t1\n");
  EXPECT_EQ(submit("wnli", {"not_entailment", "entailment"}), "index\tprediction\n0\t1\n1\t0\n");
  EXPECT_EQ(submit("rte", {"entailment", "not_entailment"}), "index\tprediction\n0\tnot_entailment\n1\tentailment\n");
  EXPECT_EQ(submit("mnli-mm", {"neutral", "contradiction", "entailment"}),
            "index\tprediction\n0\tcontradiction\n1\tneutral\n");
  WriteSubmission(folder_.path(), FindGlueTask("stsb"), std::vector<double>{-0.25, 3.14159, 5.5});
  EXPECT_EQ(folder_.Read("STS-B.tsv"), "index\tprediction\n0\t0.000\n1\t3.142\n2\t5.000\n");
  // It can be scored like any file of predictions.
  EXPECT_EQ(ScoreClassificationFiles(FindGlueTask("wnli"), folder_ / "WNLI.tsv",
                                     folder_.Write("dev.tsv",
                                                   "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n"
                                                   "1\tc\td\t1\n"))["accuracy"],
            0.5);
}

TEST_F(ScoreFile, BadFilesAreNamedWithTheirLine) {
  const std::string header = "index\tprediction\n";
  EXPECT_THAT(Error(""), HasSubstr("predictions.txt:1: expected the header \"index<TAB>prediction\""));
  EXPECT_THAT(Error("0\t1\n"), HasSubstr("predictions.txt:1: expected the header"));
  EXPECT_THAT(Error(header + "0\t1\nx\t1\n"), HasSubstr("predictions.txt:3: expected index<TAB>prediction"));
  EXPECT_THAT(Error(header + "0\n"), HasSubstr("predictions.txt:2: expected index<TAB>prediction"));
  EXPECT_THAT(Error(header + "-1\t1\n"), HasSubstr("predictions.txt:2: expected index<TAB>prediction"));
  EXPECT_THAT(Error(header + "4\t1\n"), HasSubstr("predictions.txt:2: index 4, but the references have 4 rows"));
  EXPECT_THAT(Error(header + "1\t1\n1\t0\n"), HasSubstr("predictions.txt:3: index 1 for the second time"));
  EXPECT_THAT(Error(header + "1\tgood\n"),
              HasSubstr("predictions.txt:2: label \"good\" is unknown, known: negative, positive"));
  EXPECT_THAT(Error(header + "0\t1\n"), HasSubstr("predictions.txt: 1 predictions, but the references have 4 rows"));
  EXPECT_THAT(ErrorOf([&] { Score(header, "sentence\tlabel\na\t7\n"); }),
              HasSubstr("dev.tsv:2: label \"7\" is unknown"));
}

class ScoreOwnFile : public ScoreFile {
 protected:
  Json Score(const std::string& predictions, const std::string& references) {
    return ScoreOwnFiles(folder_.Write("p.txt", "index\tprediction\n" + predictions),
                         folder_.Write("own.tsv", "text\tlabel\n" + references));
  }
};

TEST_F(ScoreOwnFile, ValuesWhereLabelsOrPredictionsAreNoIntegers) {
  const Json scores = Score("0\t1.000\n1\t2.500\n2\t2.000\n", "a\t1\nb\t2.5\nc\t4\n");
  EXPECT_DOUBLE_EQ(scores["mse"].get<double>(), 4.0 / 3);
  EXPECT_EQ(Score("0\t1\n1\t2.5\n2\t2\n", "a\t1\nb\t2.5\nc\t4\n"), scores);
  EXPECT_DOUBLE_EQ(Score("0\t1.000\n1\t2.500\n", "a\t1\nb\t3\n")["mse"].get<double>(), 0.125);
}

TEST_F(ScoreOwnFile, ClassesByName) {
  const Json scores = Score("0\tgood\n1\tbad\n2\tgood\n", "a\tgood\nb\tgood\nc\tbad\n");
  EXPECT_DOUBLE_EQ(scores["accuracy"].get<double>(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores["f1"].get<double>(), 0.5);  // of "good"
  EXPECT_FALSE(scores.contains("mse"));
  // Integers are names too; a class may lack among the references.
  const Json three = Score("0\t3\n1\t1\n2\t10\n", "a\t3\nb\t3\nc\t10\n");
  EXPECT_DOUBLE_EQ(three["accuracy"].get<double>(), 2.0 / 3);
  EXPECT_FALSE(three.contains("f1"));
}

TEST_F(ScoreOwnFile, SaysWhenOnlyATaskCanTell) {
  EXPECT_THAT(ErrorOf([&] { Score("0\tgood\n1\t1\n", "a\tgood\nb\tbad\n"); }),
              ::testing::AllOf(HasSubstr("task_name: required"), HasSubstr("p.txt:3: prediction 1 is a number")));
}

TEST_F(ScoreOwnFile, ScoresWhatIsWritten) {
  WriteValues(folder_ / "values.txt", std::vector<double>{1, 2});
  const std::string own = folder_.Write("own.tsv", "text\tlabel\na\t1.5\nb\t2\n");
  EXPECT_DOUBLE_EQ(ScoreOwnFiles(folder_ / "values.txt", own)["mse"].get<double>(), 0.125);
}

}  // namespace
}  // namespace lshformer
