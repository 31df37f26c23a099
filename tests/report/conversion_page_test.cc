#include "report/conversion_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "report/xml_check.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json Report() {
  return ParseJson(R"({
    "model": "models/bert & co/", "output": "out", "machine": {"cpu": "X <1>", "isa": "AVX2", "threads": 2}, "seed": 42,
    "texts": {"files": ["a.txt"], "embedded": false, "count": 40, "tokens": 12345, "held_out": 10},
    "budget": {"pairs": 0.25},
    "pairs_fraction": 0.249, "cosine_mean": 0.9961, "cosine_worst": 0.991, "time_fraction": 0.61,
    "metric_name": "eval_accuracy", "metric_exact": 0.9, "metric": 0.891,
    "recover_steps": 300, "cosine_mean_before_recovery": 0.98,
    "layers": [
      {"layer": 0, "heads": [
        {"head": 0, "setting": "16 × 4", "pairs_fraction": 0.27, "mass_recall": 0.91, "error": 0.0012},
        {"head": 1, "setting": "exact", "pairs_fraction": 1, "mass_recall": 1, "error": 0}]},
      {"layer": 1, "heads": [
        {"head": 0, "setting": "<128 × 0>", "pairs_fraction": 0.02, "mass_recall": 0.5, "error": 0.02},
        {"head": 1, "setting": "16 × 4", "pairs_fraction": 0.26, "mass_recall": null, "error": 0.003}]}],
    "frontier": [
      {"name": "this conversion", "budget": 0.25, "pairs_fraction": 0.249, "time_fraction": 0.61,
       "cosine_mean": 0.9961, "cosine_worst": 0.991},
      {"name": "alike", "setting": "open 4", "pairs_fraction": 0.5, "time_fraction": 0.8, "cosine_mean": 0.999, "cosine_worst": 0.99},
      {"name": "alike", "pairs_fraction": 0.1, "time_fraction": 0.4, "cosine_mean": 0.9, "cosine_worst": null},
      {"name": "same", "pairs_fraction": 1, "time_fraction": 1, "cosine_mean": 1, "cosine_worst": 1}],
    "seeds": [{"seed": 42, "pairs_fraction": 0.249, "cosine_mean": 0.9961, "cosine_worst": 0.991},
              {"seed": 43, "pairs_fraction": 0.251, "cosine_mean": 0.9952, "cosine_worst": 0.99}],
    "commands": ["lshformer convert --model_name_or_path 'models/bert & co'"]})",
                   "report");
}

std::string Figure(const std::string& html, const std::string& title) {
  const size_t begin = html.find("aria-label=\"" + title + "\"");
  return begin == std::string::npos ? "" : html.substr(begin, html.find("</svg>", begin) - begin);
}

TEST(ConversionPageTest, TellsWhatTheReportHolds) {
  const std::string html = ConversionPage(Report());
  EXPECT_EQ(XmlProblem(html), "");
  EXPECT_THAT(html, HasSubstr("<h1>Conversion of bert &amp; co</h1><p>models/bert &amp; co/ → out, seed 42</p>"));
  EXPECT_THAT(html, HasSubstr("<b>24.9\u00A0%</b><span>of the pairs of queries and keys are computed, at most "
                              "25\u00A0% asked for</span>"));
  EXPECT_THAT(html, HasSubstr("<b>61\u00A0%</b><span>of exact attention&#39;s time</span>"));
  EXPECT_THAT(html, HasSubstr("<b>0.9961</b><span>mean cosine to the exact model; 0.9800 before recovery</span>"));
  EXPECT_THAT(html, HasSubstr("<b>0.9910</b><span>worst cosine of a text</span>"));
  EXPECT_THAT(html, HasSubstr("<b>99\u00A0%</b><span>of accuracy kept: 0.8910, with exact attention 0.9000</span>"));
  EXPECT_THAT(html, HasSubstr("Each of its 4 heads"));
  EXPECT_THAT(html, HasSubstr("trained for 300 steps"));
  EXPECT_THAT(html, HasSubstr("Measured on 40 texts of 12345 tokens in all, from a.txt."));
  EXPECT_THAT(html, HasSubstr("count 10 texts held out"));
  EXPECT_THAT(html, HasSubstr("cpu X &lt;1&gt;, isa AVX2, threads 2."));
  EXPECT_THAT(html, HasSubstr("Over 2 seeds the mean cosine is 0.9952 to 0.9961."));
  EXPECT_THAT(html, HasSubstr("<pre>lshformer convert --model_name_or_path &#39;models/bert &amp; co&#39;\n</pre>"));
}

TEST(ConversionPageTest, ASettingHasOneColourCheapestFirst) {
  const std::string map = Figure(ConversionPage(Report()), "Setting of each head");
  std::map<std::string, std::set<std::string>> colors;
  const std::regex cell("<g class=\"([^\"]*)\"><title>layer [0-9], head [0-9]: ([^<]*), [^<]* of pairs</title>");
  int cells = 0;
  for (std::sregex_iterator match(map.begin(), map.end(), cell), end; match != end; ++match, ++cells)
    colors[(*match)[2]].insert((*match)[1]);
  EXPECT_EQ(cells, 4);
  EXPECT_EQ(colors, (std::map<std::string, std::set<std::string>>{
                        {"&lt;128 × 0&gt;", {"q0"}}, {"16 × 4", {"q1"}}, {"exact", {"q2"}}}));
  EXPECT_THAT(map, HasSubstr(">16 × 4 (2)</text>"));
  EXPECT_THAT(map, HasSubstr(">exact (1)</text>"));
}

TEST(ConversionPageTest, FiguresOfHeadsStandInTheirCells) {
  const std::string html = ConversionPage(Report());
  const std::string recall = Figure(html, "Mass recall"), error = Figure(html, "Error");
  EXPECT_THAT(recall, HasSubstr("<title>layer 0, head 0: 0.9100, 16 × 4</title>"));
  EXPECT_THAT(recall, HasSubstr(">0.91</text>"));
  EXPECT_THAT(recall, HasSubstr("<title>layer 1, head 1: –, 16 × 4</title>"));
  EXPECT_THAT(error, HasSubstr(">1e-3</text>"));
  EXPECT_THAT(error, HasSubstr("<g class=\"h0\"><title>layer 0, head 0: 0.001200, 16 × 4</title>"));
  EXPECT_THAT(error, HasSubstr("<g class=\"h8\"><title>layer 1, head 0: 0.02000, &lt;128 × 0&gt;</title>"));
  EXPECT_THAT(error, HasSubstr("<g class=\"hn\"><title>layer 0, head 1: 0, exact</title>"));
  EXPECT_THAT(html,
              HasSubstr("<th scope=\"row\">0, 0</th><td>16 × 4</td><td>27 %</td><td>0.9100</td><td>0.00120</td>"));
}

// One curve a name, whatever the order of its points; equals have no place on a logarithmic axis.
TEST(ConversionPageTest, TheFrontierIsDrawnByNameAndToldInFull) {
  const std::string html = ConversionPage(Report());
  const std::string pairs = Figure(html, "What is lost, against pairs computed");
  EXPECT_THAT(pairs, HasSubstr("<title>alike: 0.1000 at 10</title>"));
  EXPECT_THAT(pairs, HasSubstr("<title>this conversion: 0.003900 at 24.9000</title>"));
  EXPECT_THAT(pairs, Not(HasSubstr("same")));
  std::smatch curve;
  ASSERT_TRUE(std::regex_search(pairs, curve, std::regex("class=\"l s1\"[^>]* d=\"M([0-9.]+) [0-9.]+L([0-9.]+) ")));
  EXPECT_LT(std::stod(curve[1]), std::stod(curve[2]));
  const std::string time = Figure(html, "What is lost, against time");
  EXPECT_THAT(time, HasSubstr("<title>alike: 0.1000 at 40</title>"));
  EXPECT_THAT(time, HasSubstr("class=\"m s1\""));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">this conversion</th><td>25 %</td><td>24.9 %</td><td>61 %</td>"
                              "<td>0.9961</td><td>0.9910</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">alike, open 4</th>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">alike</th><td>–</td><td>10 %</td><td>40 %</td><td>0.9000</td>"
                              "<td>–</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">same</th>"));
}

TEST(ConversionPageTest, WithoutOptionalPartsTheyAreLeftOut) {
  Json report = Report();
  for (const char* key :
       {"metric_name", "metric_exact", "metric", "recover_steps", "cosine_mean_before_recovery", "seeds", "commands"})
    report.erase(key);
  report["budget"] = nullptr;
  for (Json& entry : report["frontier"]) {
    entry.erase("budget");
    entry["time_fraction"] = nullptr;
  }
  const std::string html = ConversionPage(report);
  EXPECT_EQ(XmlProblem(html), "");
  for (const char* absent : {"accuracy", "recovery", "seeds", "<h2>Commands", "asked for</span>", ">budget<",
                             "trained for", "What is lost, against time"})
    EXPECT_THAT(html, Not(HasSubstr(absent))) << absent;
  EXPECT_THAT(html, HasSubstr("now has the attention that was asked for. "));
  EXPECT_THAT(html, HasSubstr("The weights are as they were."));
  EXPECT_NE(Figure(html, "What is lost, against pairs computed"), "");
}

TEST(ConversionPageTest, ABudgetOfTimeAndTextsOfTheProgram) {
  Json report = Report();
  report["budget"] = {{"time", 0.5}};
  report["texts"] = {{"files", Json::array()}, {"embedded", true}, {"count", 1}, {"tokens", 900}, {"held_out", 1}};
  const std::string html = ConversionPage(report);
  EXPECT_THAT(html, HasSubstr("of exact attention&#39;s time, at most 50\u00A0% asked for"));
  EXPECT_THAT(html, HasSubstr("take at most 50\u00A0% of exact attention&#39;s time"));
  EXPECT_THAT(html, HasSubstr("Measured on 1 text of 900 tokens in all, those that come with the program."));
  EXPECT_THAT(html, HasSubstr("count 1 text held out"));
}

TEST(ConversionPageTest, AMetricOfWhichLessIsBetterIsNotKept) {
  Json report = Report();
  report["metric_name"] = "perplexity";
  report["metric"] = 4.5;
  report["metric_exact"] = 4.25;
  EXPECT_THAT(ConversionPage(report), HasSubstr("<b>4.500</b><span>perplexity; with exact attention 4.250</span>"));
}

TEST(ConversionPageTest, FiguresThatAreMissingOrNotFiniteAreDashes) {
  Json report = Report();
  report["pairs_fraction"] = std::nan("");
  report["cosine_mean"] = HUGE_VAL;
  report["time_fraction"] = nullptr;
  report.erase("cosine_worst");
  const std::string html = ConversionPage(report);
  EXPECT_EQ(XmlProblem(html), "");
  for (const char* caption : {"of the pairs", "of exact attention", "mean cosine", "worst cosine"})
    EXPECT_THAT(html, HasSubstr(std::string("<b>–</b><span>") + caption));
  EXPECT_THAT(html, Not(HasSubstr("∞")));
  EXPECT_THAT(html, Not(HasSubstr(">nan")));
}

TEST(ConversionPageTest, NoReportBreaksThePage) {
  for (const char* text :
       {"{}", "[]", "null", R"({"layers": [{}], "frontier": [{}], "seeds": [{}], "commands": [1]})",
        R"({"layers": [3, {"heads": [4, {"head": -7, "error": "x"}]}], "frontier": 5, "texts": 6, "machine": [],
            "budget": 0.5, "model": 1, "metric": 0, "metric_exact": 0})",
        R"({"model": "/", "texts": {"files": [1, "a", "b", "c", "d", "e", "f"]}, "layers": [{"heads": []}]})"})
    EXPECT_EQ(XmlProblem(ConversionPage(ParseJson(text, "report"))), "") << text;
}

}  // namespace
}  // namespace lshformer
