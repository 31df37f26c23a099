#include "report/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "report/xml_check.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class RunsTest : public ::testing::Test {
 protected:
  RunsTest() { fs::create_directories(root_); }
  ~RunsTest() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& contents) {
    fs::create_directories((root_ / name).parent_path());
    WriteFileAtomically((root_ / name).string(), contents);
    return (root_ / name).string();
  }
  std::string Path(const std::string& name) const { return (root_ / name).string(); }

  std::string MakeRun(const std::string& name, const std::string& attention, double loss, double accuracy) {
    Write(name + "/config.json", R"({"hidden_size": 128, "attention": )" + attention + "}");
    Write(name + "/eval_results.json",
          fmt::format(R"({{"eval_loss": {}, "eval_accuracy": {}, "epoch": 3.0, "note": "x"}})", loss, accuracy));
    Write(name + "/all_results.json", fmt::format(R"({{"eval_loss": {}, "train_runtime": 10.5}})", loss));
    Write(name + "/trainer_state.json",
          fmt::format(R"({{"log_history": [{{"step": 10, "loss": 6.5, "learning_rate": 1e-4}},
      {{"step": 20, "loss": {}, "learning_rate": 0}}, {{"step": 20, "eval_loss": {}}}]}})",
                      loss, loss));
    return Path(name);
  }

  // The message of the Error that reading `path` throws.
  static std::string Message(const std::string& path) {
    try {
      ReadRun(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "(no error)";
  }

  fs::path root_ = fs::path(::testing::TempDir()) /
                   (std::string("runs_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

constexpr const char* kBench = R"({"machine": {"cpu": "x<y", "threads": 2}, "results": [
  {"name": "dense", "attention": "dense", "direction": "forward", "length": 512, "median_ms": 2.5, "pairs_fraction": 1},
  {"name": "simhash", "attention": "simhash", "direction": "forward", "length": 512, "median_ms": 1.5, "pairs_fraction": 0.26},
  {"name": "dense", "attention": "dense", "direction": "forward", "length": 128, "median_ms": 0.5}]})";

TEST_F(RunsTest, ReadsWhatARunLeft) {
  const RunRecord run = ReadRun(MakeRun("exact", "\"dense\"", 5.5, 0.15));
  EXPECT_EQ(run.name, "exact");
  EXPECT_EQ(run.attention, "dense");
  ASSERT_EQ(run.results.size(), 4U);  // a key once, text left out
  EXPECT_EQ(run.results[0], (std::pair<std::string, double>("eval_loss", 5.5)));
  EXPECT_EQ(run.results[3], (std::pair<std::string, double>("train_runtime", 10.5)));
  ASSERT_EQ(run.curves.size(), 3U);
  EXPECT_EQ(run.curves[0].first, "loss");
  EXPECT_EQ(run.curves[0].second, (Curve{{10, 6.5}, {20, 5.5}}));
}

TEST_F(RunsTest, AJobOfSeveralSeedsIsItsRuns) {
  MakeRun("job/seed-1", "\"dense\"", 5.5, 0.15);
  MakeRun("job/seed-20", "\"dense\"", 5.3, 0.16);
  const std::string job = Write("job/all_results.json", R"({"seeds": [1, 20], "eval_loss": {"mean": 5.4}})");
  const std::vector<RunRecord> runs = ReadRuns({job.substr(0, job.rfind('/')), MakeRun("other", "\"dense\"", 5, 0.2)});
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].name, "seed-1");
  EXPECT_EQ(runs[1].name, "seed-20");
  EXPECT_EQ(runs[1].results[0], (std::pair<std::string, double>("eval_loss", 5.3)));
  Write("job/all_results.json", R"({"seeds": [1, "20"]})");
  EXPECT_EQ(ErrorOf([&] { ReadRuns({job.substr(0, job.rfind('/'))}); }),
            job + ": \"seeds\": expected seeds, got \"20\"");
}

TEST_F(RunsTest, TheBetterRunOfAMetricIsStressed) {
  const std::vector<RunRecord> runs =
      ReadRuns({MakeRun("exact", "\"dense\"", 5.5, 0.15), MakeRun("hashed", R"({"type": "simhash"})", 5.3, 0.12)});
  const Table table = ResultsTable(runs);
  std::map<std::string, int> best;
  for (const Table::Line& line : table.lines) best[line.cells[0]] = line.best;
  EXPECT_EQ(table.lines[0].cells, (std::vector<std::string>{"attention", "dense", "simhash"}));
  EXPECT_EQ(best["eval_loss"], 2);
  EXPECT_EQ(best["eval_accuracy"], 1);
  EXPECT_EQ(best["train_runtime"], -1);  // equal
  EXPECT_EQ(best["epoch"], -1);          // no value is better
  const std::string html = RunsPage(runs, "Two <runs>");
  EXPECT_EQ(XmlProblem(html), "");
  EXPECT_THAT(html, HasSubstr("<title>Two &lt;runs&gt;</title>"));
  EXPECT_THAT(html, HasSubstr("training loss"));
  EXPECT_THAT(html, HasSubstr("Where the configs differ"));
  EXPECT_THAT(html, Not(HasSubstr("<th scope=\"row\">hidden_size</th>")));
}

TEST_F(RunsTest, ModelsWithDifferentHeadsAreNotRanked) {
  const std::string words = MakeRun("words", "\"dense\"", 5.5, 0.15), labels = MakeRun("labels", "\"dense\"", 0.4, 0.9);
  Write("labels/config.json", R"({"architectures": ["BertForSequenceClassification"]})");
  const std::vector<RunRecord> runs = ReadRuns({words, labels});
  for (const Table::Line& line : ResultsTable(runs).lines) EXPECT_EQ(line.best, -1) << line.cells[0];
  EXPECT_THAT(RunsPage(runs, "t"), HasSubstr("different heads"));
}

TEST_F(RunsTest, RegressionsAreRankedAmongThemselves) {
  std::vector<std::string> paths;
  for (const auto& [name, mse, pearson] : {std::tuple("a", 0.5, 0.8), std::tuple("b", 0.7, 0.85)}) {
    paths.push_back(MakeRun(name, "\"dense\"", mse, 0));
    Write(name + std::string("/config.json"),
          R"({"architectures": ["BertForSequenceClassification"], "problem_type": "regression"})");
    Write(name + std::string("/eval_results.json"),
          fmt::format(R"({{"eval_loss": {}, "eval_mse": {}, "eval_pearson": {}, "eval_combined_score": {}}})", mse, mse,
                      pearson, pearson));
  }
  const auto best = [](const std::vector<RunRecord>& runs) {
    std::map<std::string, int> best;
    for (const Table::Line& line : ResultsTable(runs).lines) best[line.cells[0]] = line.best;
    return best;
  };
  std::map<std::string, int> among = best(ReadRuns(paths));
  for (const char* key : {"eval_loss", "eval_mse"}) EXPECT_EQ(among[key], 1) << key;
  for (const char* key : {"eval_pearson", "eval_combined_score"}) EXPECT_EQ(among[key], 2) << key;
  // A squared error beside a cross-entropy says nothing.
  Write("b/config.json", R"({"architectures": ["BertForSequenceClassification"]})");
  EXPECT_EQ(best(ReadRuns(paths))["eval_loss"], -1);
}

TEST_F(RunsTest, EqualNamesGetTheirFolders) {
  const std::vector<RunRecord> runs =
      ReadRuns({MakeRun("a/run", "\"dense\"", 1, 1), MakeRun("b/run", "\"dense\"", 1, 1) + "/",
                MakeRun("c", "\"dense\"", 1, 1)});
  EXPECT_EQ(runs[0].name, "a/run");
  EXPECT_EQ(runs[1].name, "b/run");
  EXPECT_EQ(runs[2].name, "c");
}

TEST_F(RunsTest, TheSameFolderTwiceStillMakesAPage) {
  const std::string path = MakeRun("run", "\"dense\"", 1, 1);
  EXPECT_EQ(XmlProblem(RunsPage(ReadRuns({path, path}), "t")), "");
}

TEST_F(RunsTest, BenchmarksAreReadFromFoldersAndFiles) {
  const std::string file = Write("speed/bench_attention.json", kBench);
  for (const std::string& path : {file, Path("speed")}) {
    const RunRecord run = ReadRun(path);
    ASSERT_EQ(run.benchmarks.size(), 1U);
    const std::string html = RunsPage({run}, "t");
    EXPECT_EQ(XmlProblem(html), "");
    EXPECT_THAT(html, HasSubstr("cpu x&lt;y, threads 2"));
    EXPECT_THAT(html, HasSubstr("<title>dense: 0.5000 at 128</title>"));
  }
}

TEST_F(RunsTest, ABareBenchmarkHasNoColumnAmongTheResults) {
  const std::string file = Write("bench.json", kBench);
  const std::vector<Table> alone = SummaryTables(ReadRuns({file}));
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].columns, (std::vector<std::string>{"median ms", "128", "512"}));
  const std::vector<Table> both = SummaryTables(ReadRuns({file, MakeRun("exact", "\"dense\"", 5.5, 0.15)}));
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].columns, (std::vector<std::string>{"", "exact"}));
  EXPECT_THAT(RunsPage(ReadRuns({file}), "t"), Not(HasSubstr("Results")));
}

TEST_F(RunsTest, TimingsAreNotCalledRuns) {
  const std::string run = MakeRun("exact", "\"dense\"", 5.5, 0.15), one = Write("one.json", kBench),
                    two = Write("two.json", kBench);
  const auto subtitle = [](const std::vector<std::string>& paths) {
    const std::string html = RunsPage(ReadRuns(paths), "t");
    const size_t begin = html.find("</h1><p>") + 8;
    return html.substr(begin, html.find("</p>", begin) - begin);
  };
  EXPECT_EQ(subtitle({run}), "1 run: exact");
  EXPECT_EQ(subtitle({one}), "timings: one.json");
  EXPECT_EQ(subtitle({one, two}), "2 sets of timings: one.json, two.json");
  EXPECT_EQ(subtitle({run, one}), "1 run and timings: exact, one.json");
  EXPECT_THAT(RunsPage(ReadRuns({run, one}), "t"), Not(HasSubstr("best run")));  // there is one
}

TEST_F(RunsTest, WhatWasNotMeasuredOfAMachineIsNotTold) {
  const std::string html = RunsPage(ReadRuns({Write("bench.json", R"({"machine": {"cpu": "x", "gemm_gflops": null,
      "memory_gbps": null, "threads": 2}, "results": [{"name": "a", "length": 8, "median_ms": 1}]})")}),
                                    "t");
  EXPECT_THAT(html, HasSubstr("Machine of bench.json: cpu x, threads 2."));
}

TEST_F(RunsTest, OursAndPeersShareTheirCharts) {
  const std::string ours = Write("bench.json", kBench), peers = Write("peers.json", R"({"results": [
    {"name": "torch_sdpa", "length": 128, "direction": "forward", "median_ms": 0.25},
    {"name": "torch_sdpa", "length": 128, "direction": "forward_backward", "median_ms": 1.25}]})");
  const std::vector<RunRecord> runs = ReadRuns({ours, peers});
  std::vector<Benchmark> benchmarks;
  for (const RunRecord& run : runs) benchmarks.push_back(run.benchmarks.at(0));
  const std::vector<BenchmarkSection> sections = BenchmarkSections(benchmarks);
  ASSERT_EQ(sections.size(), 1U);
  ASSERT_EQ(sections[0].charts.size(), 2U);  // forward, and both; nobody said how much memory
  const std::vector<Series>& forward = sections[0].charts[0].series;
  ASSERT_EQ(forward.size(), 3U);
  EXPECT_EQ(forward[2].name, "torch_sdpa");
  EXPECT_EQ(forward[2].points, (std::vector<std::pair<double, double>>{{128, 0.25}}));
  const std::string html = RunsPage(runs, "t");
  EXPECT_EQ(XmlProblem(html), "");
  EXPECT_THAT(html, HasSubstr("peers.json does not say on which machine it was measured"));
}

TEST_F(RunsTest, WhatIsNoRunIsRefusedByName) {
  fs::create_directories(root_ / "empty");
  EXPECT_EQ(Message(Path("missing")), Path("missing") + ": no such run folder");
  EXPECT_THAT(Message(Path("empty")), HasSubstr("empty: not a run folder"));
  Write("only_config/config.json", "{}");
  EXPECT_THAT(Message(Path("only_config")), HasSubstr("not a run folder"));
}

TEST_F(RunsTest, DamagedFilesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"trainer_state.json", "{\"log_history\": ["},
      {"trainer_state.json", "[]"},
      {"trainer_state.json", "{\"log_history\": [{\"loss\": 1}]}"},
      {"eval_results.json", "[1]"},
      {"eval_results.json", ""},
      {"bench.json", "{\"results\": [{\"length\": 5}]}"},
      {"bench.json", "{}"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string folder = "damaged" + std::to_string(i);
    const std::string path = Write(folder + "/" + cases[i].first, cases[i].second);
    EXPECT_THAT(Message(Path(folder)), ::testing::StartsWith(path)) << cases[i].second;
  }
  MakeRun("config", "\"sharp\"", 1, 1);
  EXPECT_THAT(Message(Path("config")), HasSubstr("config.json"));
  Write("config/config.json", "7");
  EXPECT_THAT(Message(Path("config")), HasSubstr("config.json: expected an object"));
}

}  // namespace
}  // namespace lshformer
