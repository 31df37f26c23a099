#include "report/benchmarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Benchmark Parse(const std::string& rows, const std::string& source = "a.json") {
  Benchmark benchmark = ParseBenchmark(ParseJson("{\"results\": " + rows + "}", "json"), source);
  benchmark.source = source;
  return benchmark;
}

constexpr const char* kOurs = R"([
  {"name": "dense", "direction": "forward", "heads": 12, "head_dim": 64, "batch": 1, "length": 128, "median_ms": 2,
   "p10_ms": 1.5, "p90_ms": 3, "pairs_fraction": 1, "work_bytes": 2000000, "gemm_share": 0.5, "memory_share": null},
  {"name": "dense", "direction": "forward", "heads": 12, "head_dim": 64, "batch": 1, "length": 64, "median_ms": 1},
  {"name": "simhash", "direction": "forward", "heads": 12, "head_dim": 64, "batch": 1, "length": 128,
   "median_ms": 1.5, "work_bytes": 3000000}])";

TEST(BenchmarkSections, TimeAndMemoryOfAttentionAreLogarithmicByLength) {
  const std::vector<BenchmarkSection> sections = BenchmarkSections({Parse(kOurs)});
  ASSERT_EQ(sections.size(), 1U);
  ASSERT_EQ(sections[0].charts.size(), 2U);
  const LineChart &time = sections[0].charts[0], &memory = sections[0].charts[1];
  EXPECT_TRUE(time.x.log && time.y.log && memory.x.log && memory.y.log);
  EXPECT_EQ(time.title, "Time, forward");
  EXPECT_EQ(memory.title, "Work memory, forward");
  EXPECT_EQ(time.series[0].points, (std::vector<std::pair<double, double>>{{64, 1}, {128, 2}}));
  EXPECT_EQ(memory.series[0].points, (std::vector<std::pair<double, double>>{{128, 2}}));
  EXPECT_EQ(memory.series[1].points, (std::vector<std::pair<double, double>>{{128, 3}}));
  EXPECT_THAT(time.x.ticks, ElementsAre(64, 128));
}

TEST(BenchmarkSections, TheSummaryHasALinePerNameAndAColumnPerLength) {
  const Table table = BenchmarkSections({Parse(kOurs)})[0].summary;
  EXPECT_THAT(table.columns, ElementsAre("median ms", "64", "128"));
  ASSERT_EQ(table.lines.size(), 3U);
  EXPECT_THAT(table.lines[0].cells, ElementsAre("forward"));
  EXPECT_THAT(table.lines[1].cells, ElementsAre("dense", "1", "2"));
  EXPECT_THAT(table.lines[2].cells, ElementsAre("simhash", "–", "1.500"));
}

TEST(BenchmarkSections, DetailsShowTheRoofline) {
  const Table table = BenchmarkSections({Parse(kOurs)})[0].details;
  EXPECT_THAT(table.lines[0].cells,
              ElementsAre("dense", "forward", "128", "2", "1.500", "3", "100 %", "2", "50 %", "–"));
}

// Each row with a name, a length and a direction of its own would fill a table of rows × lengths, and draw every line
// in every chart, had these no bound.
TEST(BenchmarkSections, ThePageGrowsWithTheRowsAndNotWithTheirProduct) {
  constexpr size_t kRows = 5000;
  for (const bool model : {false, true}) {
    for (const bool directions : {false, true}) {
      std::string rows;
      for (size_t i = 0; i < kRows; ++i)
        rows += fmt::format(R"({}{{"name": "line {}", "length": {}, "median_ms": 1{}{}}})", i == 0 ? "[" : ",", i,
                            i + 1, model ? R"(, "tokens_per_second": 5, "layers": 2, "activation_bytes": 8)" : "",
                            directions ? fmt::format(R"(, "direction": "way {}")", i) : "");
      const BenchmarkSection section = BenchmarkSections({Parse(rows + "]")}).at(0);
      size_t cells = 0, series = 0;
      for (const Table::Line& line : section.summary.lines) cells += line.cells.size();
      for (const LineChart& chart : section.charts) series += chart.series.size();
      EXPECT_EQ(cells, (3 + (directions ? 1 : 0)) * kRows);  // name, length, milliseconds
      EXPECT_EQ(series, (model ? 3 : 1) * kRows);
      EXPECT_EQ(section.details.lines.size(), kRows);
    }
  }
}

TEST(BenchmarkSections, ALineKeepsItsColourWhereOthersAreMissing) {
  const BenchmarkSection section =
      BenchmarkSections({Parse(R"([{"name": "a", "direction": "forward", "length": 8, "median_ms": 1},
                 {"name": "b", "direction": "forward", "length": 8, "median_ms": 1},
                 {"name": "b", "direction": "forward_backward", "length": 8, "median_ms": 1}])")})[0];
  ASSERT_EQ(section.charts.size(), 2U);
  ASSERT_EQ(section.charts[1].series.size(), 1U);
  EXPECT_EQ(section.charts[1].series[0].style, section.charts[0].series[1].style);
  EXPECT_NE(section.charts[0].series[0].style, section.charts[0].series[1].style);
  EXPECT_THAT(Svg(section.charts[1]), HasSubstr("class=\"l s1\""));
}

TEST(BenchmarkSections, MemoryOfTrainingStepsByLengthAndByDepth) {
  std::string rows;
  for (const auto& [name, layers, length, bytes] : {std::tuple("dense, num_hidden_layers=2", 2, 128, 4e6),
                                                    {"dense, num_hidden_layers=2", 2, 512, 16e6},
                                                    {"dense, num_hidden_layers=6", 6, 128, 12e6},
                                                    {"dense, num_hidden_layers=6", 6, 512, 48e6},
                                                    {"dense, num_hidden_layers=2,reversible=true", 2, 128, 3e6},
                                                    {"dense, num_hidden_layers=6,reversible=true", 6, 128, 3e6}})
    rows += fmt::format(R"({}{{"name": "{}", "direction": "forward_backward", "length": {}, "median_ms": 5,
                            "tokens_per_second": 9, "layers": {}, "activation_bytes": {}}})",
                        rows.empty() ? "[" : ",", name, length, layers, bytes);
  const BenchmarkSection section = BenchmarkSections({Parse(rows + "]")}).at(0);
  ASSERT_EQ(section.charts.size(), 4U);
  using Points = std::vector<std::pair<double, double>>;
  const LineChart &by_length = section.charts[2], &by_depth = section.charts[3];
  EXPECT_EQ(by_length.title, "Activation memory, forward and backward");
  EXPECT_EQ(by_length.series[1].points, (Points{{128, 12}, {512, 48}}));
  EXPECT_EQ(by_depth.title, "Activation memory by depth, forward and backward");
  ASSERT_EQ(by_depth.series.size(), 3U);
  EXPECT_EQ(by_depth.series[0].name, "dense, 128 tokens");
  EXPECT_EQ(by_depth.series[0].points, (Points{{2, 4}, {6, 12}}));
  EXPECT_EQ(by_depth.series[1].name, "dense, 512 tokens");
  EXPECT_EQ(by_depth.series[2].name, "dense, reversible=true, 128 tokens");
  EXPECT_EQ(by_depth.series[2].points, (Points{{2, 3}, {6, 3}}));
  EXPECT_EQ(section.details.columns.back(), "activations MB");
  EXPECT_EQ(section.details.lines[0].cells.back(), "4");
}

TEST(BenchmarkSections, LinesOfTwoFilesWithOneNameAreToldApart) {
  const auto names = [](const std::vector<Benchmark>& benchmarks) {
    std::vector<std::string> lines;
    const BenchmarkSection section = BenchmarkSections(benchmarks).at(0);
    for (const Series& series : section.charts.at(0).series) lines.push_back(series.name);
    return lines;
  };
  const std::string one = R"([{"name": "dense", "length": 8, "median_ms": 1, "heads": 2, "head_dim": 16}])";
  const std::string two = R"([{"name": "dense", "length": 8, "median_ms": 1, "heads": 4, "head_dim": 16}])";
  EXPECT_THAT(names({Parse(one), Parse(one, "b.json")}), ElementsAre("a.json: dense", "b.json: dense"));
  EXPECT_THAT(names({Parse(one), Parse(two, "b.json")}), ElementsAre("dense (2 × 16)", "dense (4 × 16)"));
  const std::string peer = R"([{"name": "sdpa", "length": 8, "median_ms": 1}])";
  EXPECT_THAT(names({Parse(one), Parse(peer, "b.json")}), ElementsAre("dense", "sdpa"));
}

TEST(BenchmarkSections, ModelsAndTextsHaveSectionsOfTheirOwn) {
  const std::vector<BenchmarkSection> sections = BenchmarkSections(
      {Parse(R"([{"name": "dense", "length": 8, "median_ms": 1, "tokens_per_second": 8000},
                 {"name": "simhash", "length": 0, "median_ms": 2000, "tokens_per_second": 500}])"),
       Parse(R"([{"name": "hf_fp32_sorted", "seconds": 4, "tokens_per_second": 250}])", "peers.json")});
  ASSERT_EQ(sections.size(), 2U);
  EXPECT_EQ(sections[0].title, "Models by length");
  EXPECT_EQ(sections[0].charts[1].series[0].points, (std::vector<std::pair<double, double>>{{8, 8000}}));
  EXPECT_EQ(sections[1].title, "Throughput");
  EXPECT_THAT(sections[1].summary.lines[0].cells, ElementsAre("simhash", "2", "500"));
  EXPECT_THAT(sections[1].summary.lines[1].cells, ElementsAre("hf_fp32_sorted", "4", "250"));
  EXPECT_EQ(sections[1].bars[0].series.size(), 2U);
  EXPECT_THAT(sections[1].details.lines, IsEmpty());
}

TEST(ParseBenchmark, NamesTellNumbersApart) {
  const Benchmark both = Parse(R"([{"name": "sdpa", "dtype": "float32", "length": 8, "median_ms": 2},
                                   {"name": "sdpa", "dtype": "bfloat16", "length": 8, "median_ms": 1},
                                   {"name": "dense-bfloat16", "dtype": "bfloat16", "length": 8, "median_ms": 1}])");
  EXPECT_EQ(both.rows[0].name, "sdpa");
  EXPECT_EQ(both.rows[1].name, "sdpa-bfloat16");
  EXPECT_EQ(both.rows[2].name, "dense-bfloat16");
}

TEST(ParseBenchmark, NamesTheRowThatIsNone) {
  const auto error = [](const std::string& rows) { return ErrorOf([&] { Parse(rows); }); };
  EXPECT_THAT(error("7"), HasSubstr("a.json: expected timings"));
  EXPECT_EQ(error("[]"), "a.json: \"results\" is empty");
  EXPECT_EQ(error(R"([{"name": "a", "length": 1, "median_ms": 1}, 7])"),
            "a.json: \"results\"[1]: expected an object, got 7");
  EXPECT_EQ(error(R"([{"length": 1, "median_ms": 1}])"), "a.json: \"results\"[0]: has no \"name\"");
  for (const char* row : {R"({"name": "a", "length": 1})", R"({"name": "a", "seconds": 1})",
                          R"({"name": "a", "length": "1", "median_ms": 1})", R"({"name": "a"})"})
    EXPECT_EQ(error("[" + std::string(row) + "]"),
              "a.json: \"results\"[0]: expected the numbers \"length\" and \"median_ms\", or \"seconds\" and "
              "\"tokens_per_second\"");
  EXPECT_EQ(error(R"([{"name": "a", "length": 1, "median_ms": -1}])"),
            "a.json: \"results\"[0]: median_ms: expected more than 0, got -1");
  EXPECT_EQ(error(R"([{"name": "a", "seconds": 0, "tokens_per_second": 5}])"),
            "a.json: \"results\"[0]: seconds: expected more than 0, got 0");
  for (const char* length : {"-5", "2.5"})
    EXPECT_EQ(error(fmt::format(R"([{{"name": "a", "length": {}, "median_ms": 1}}])", length)),
              fmt::format("a.json: \"results\"[0]: length: expected a number of tokens, got {}", length));
  EXPECT_EQ(error(R"([{"name": "a", "length": 8, "median_ms": 1}, {"name": "b", "length": 8, "median_ms": 1},
                      {"name": "a", "length": 8, "median_ms": 2}])"),
            "a.json: \"results\"[2]: a has been timed already at this length, in \"results\"[0]");
  EXPECT_THAT(ErrorOf([] { ParseBenchmark(ParseJson(R"({"log_history": []})", "json"), "x.json"); }),
              HasSubstr("x.json: expected timings"));
}

}  // namespace
}  // namespace lshformer
