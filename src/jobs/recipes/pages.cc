#include "jobs/recipes/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "jobs/recipes/illustrations.h"
#include "jobs/recipes/tables.h"
#include "report/markdown.h"
#include "report/page.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kQuickForm =
    "The quick form: small models on data that the program makes itself. It shows that all of this runs; its figures "
    "do "
    "not compare with published ones, unless a verdict says so.";

std::string FolderOf(const Recipe& recipe, const ReproduceOptions& options) {
  return options.output_dir + "/" + recipe.name;
}

// All runs that the cells rest on, in the order in which they run.
std::vector<std::string> Commands(const ReproducedRecipe& reproduced, const RecipePlan& plan) {
  std::set<std::string> wanted;
  for (const auto& [cell, key] : reproduced.cells) wanted.insert(key);
  for (auto run = plan.runs.rbegin(); run != plan.runs.rend(); ++run)
    if (wanted.contains(run->key)) wanted.insert(run->needs.begin(), run->needs.end());
  std::vector<std::string> lines;
  for (const RecipeRun& run : plan.runs)
    if (wanted.contains(run.key)) lines.push_back(CommandLine(run));
  return lines;
}

void AddRecipe(const ReproducedRecipe& reproduced, const RecipePlan& plan, const ReproduceOptions& options,
               Page& page) {
  const Recipe& recipe = reproduced.recipe;
  if (!recipe.source.empty()) page.Paragraph(recipe.source);
  if (options.form == Form::kQuick) page.Paragraph(kQuickForm);
  page.Add(RecipeTable(recipe, reproduced.results, options));
  if (const Table claims = ClaimTable(recipe, reproduced.results); !claims.lines.empty()) {
    page.Heading("What of it holds");
    page.Add(claims);
  }
  if (!reproduced.illustrations.empty()) page.Add(reproduced.illustrations);
  if (!recipe.defects.empty()) page.Heading("What is known of the published figures");
  for (const std::string& defect : recipe.defects) page.Paragraph(defect);
  for (const std::string& note : recipe.notes) page.Paragraph(note);
  page.Heading("Where the numbers come from");
  page.Commands(Commands(reproduced, plan));
  page.Details("every figure: its value, its key and the file that it stands in",
               TraceTable(recipe, reproduced.results));
  page.Details("the runs: program, machine, time", RunTable(reproduced.results));
}

std::string FigureFile(size_t place) { return fmt::format("figure-{}.svg", place + 1); }

// Pipes and line ends of a table's cells are Markdown()'s to heed; of text only what could begin a line matters.
std::string MarkdownText(const ReproducedRecipe& reproduced, const RecipePlan& plan, const ReproduceOptions& options,
                         const std::string& figures) {
  const Recipe& recipe = reproduced.recipe;
  std::string text = MarkdownParagraph(recipe.source);
  if (options.form == Form::kQuick) text += MarkdownParagraph(std::string(kQuickForm));
  text += Markdown(RecipeTable(recipe, reproduced.results, options)) + "\n";
  if (const Table claims = ClaimTable(recipe, reproduced.results); !claims.lines.empty())
    text += "What of it holds:\n\n" + Markdown(claims) + "\n";
  for (size_t i = 0; i < reproduced.illustrations.size(); ++i)
    text += fmt::format("![{}]({}{})\n\n", Title(reproduced.illustrations[i].drawing), figures, FigureFile(i));
  if (!recipe.defects.empty()) text += "What is known of the published figures:\n\n";
  for (const std::string& defect : recipe.defects) text += MarkdownItem(defect);
  if (!recipe.defects.empty()) text += "\n";
  for (const std::string& note : recipe.notes) text += MarkdownParagraph(note);
  text += "Made by\n\n```sh\n";
  for (const std::string& line : Commands(reproduced, plan)) text += line + "\n";
  return text + "```\n\n" + Markdown(RunTable(reproduced.results));
}

// Every claim of all recipes with its verdict.
Table AllClaims(const std::vector<ReproducedRecipe>& all) {
  Table table{{"claim", "published", "ours", "verdict", "rule"}, {}};
  table.words = {3, 4};
  for (const ReproducedRecipe& reproduced : all) {
    const Table claims = ClaimTable(reproduced.recipe, reproduced.results);
    if (claims.lines.empty()) continue;
    table.Section(reproduced.recipe.name + ": " + reproduced.recipe.title);
    for (const Table::Line& line : claims.lines) table.Row(line.cells);
  }
  return table;
}

std::string ReportTitle(const ReproduceOptions& options) {
  return options.form == Form::kQuick ? "Published tables and figures, quick form" : "Published tables and figures";
}

std::string AllCounts(const std::vector<ReproducedRecipe>& all) {
  std::vector<Verdict> verdicts;
  for (const ReproducedRecipe& reproduced : all)
    verdicts.insert(verdicts.end(), reproduced.results.verdicts.begin(), reproduced.results.verdicts.end());
  return VerdictCounts(verdicts);
}

void CheckPage(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !IsOurPage(ReadFile(path)))
    FailOption("output_dir", "{} is no page of this program; remove it or name another folder", Shown(path, 160));
}

}  // namespace

ReproducedRecipe Reproduced(const Recipe& recipe, const PlannedCells& cells, const RecipePlan& plan,
                            const ReproduceOptions& options) {
  RecipeResults results = ReadResults(recipe, cells, plan, options);
  std::vector<Illustration> illustrations = Illustrate(recipe, results, cells, plan, options);
  return {recipe, cells, std::move(results), std::move(illustrations)};
}

void WriteRecipe(const ReproducedRecipe& reproduced, const RecipePlan& plan, const ReproduceOptions& options) {
  const std::string folder = FolderOf(reproduced.recipe, options);
  MakeFolder(folder);
  const std::string title = reproduced.recipe.title;
  WriteFileAtomically(folder + "/results.json",
                      ToJson(reproduced.recipe, reproduced.results, plan, options).dump(2) + "\n");
  WriteFileAtomically(folder + "/report.md",
                      fmt::format("# {}\n", title) + MarkdownText(reproduced, plan, options, /*figures=*/""));
  for (size_t i = 0; i < reproduced.illustrations.size(); ++i)
    WriteFileAtomically(folder + "/" + FigureFile(i), SvgFile(reproduced.illustrations[i].drawing));
  Page page(title, reproduced.recipe.name);
  AddRecipe(reproduced, plan, options, page);
  WriteFileAtomically(folder + "/" + kReportFile, page.Html());
}

void WriteReport(const std::vector<ReproducedRecipe>& all, const RecipePlan& plan, const ReproduceOptions& options) {
  Page page(ReportTitle(options), AllCounts(all));
  std::string text = fmt::format("# {}\n{}\n\n", ReportTitle(options), AllCounts(all));
  if (const Table claims = AllClaims(all); !claims.lines.empty()) {
    page.Heading("What of the sources holds");
    page.Add(claims);
    text += Markdown(claims) + "\n";
  }
  for (const ReproducedRecipe& reproduced : all) {
    const Recipe& recipe = reproduced.recipe;
    page.Chapter(recipe.name, recipe.title, VerdictCounts(reproduced.results.verdicts));
    AddRecipe(reproduced, plan, options, page);
    text += fmt::format("## {}: {}\n", recipe.name, recipe.title) +
            MarkdownText(reproduced, plan, options, recipe.name + "/") + "\n";
  }
  WriteFileAtomically(options.output_dir + "/" + kReportFile, page.Html());
  WriteFileAtomically(options.output_dir + "/report.md", text);
}

void CheckPages(const std::vector<Recipe>& recipes, const ReproduceOptions& options) {
  CheckPage(options.output_dir + "/" + kReportFile);
  for (const Recipe& recipe : recipes) CheckPage(FolderOf(recipe, options) + "/" + kReportFile);
}

std::string TerminalText(const ReproducedRecipe& reproduced, const ReproduceOptions& options) {
  const Recipe& recipe = reproduced.recipe;
  std::string text = fmt::format("{}: {}\n{}\n", recipe.name, recipe.title, recipe.source);
  if (options.form == Form::kQuick) text += std::string(kQuickForm) + "\n";
  text += "\n" + PlainText(RecipeTable(recipe, reproduced.results, options));
  if (const Table claims = ClaimTable(recipe, reproduced.results); !claims.lines.empty())
    text += "\n" + PlainText(claims);
  for (const std::string& defect : recipe.defects) text += "\npublished figures: " + defect;
  if (!recipe.defects.empty()) text += "\n";
  for (const std::string& note : recipe.notes) text += "\n" + note + "\n";
  return text;
}

}  // namespace lshformer
