#include "jobs/recipes/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace lshformer {
namespace {

constexpr const char* kNothing = "–";
constexpr int kRatioDigits = 3;

const CellResult* CellOf(const RecipeResults& results, const RecipeRow& row, const RecipeColumn& column) {
  const auto found = results.cells.find({row.name, column.name});
  return found == results.cells.end() ? nullptr : &found->second;
}

std::string FigureText(const CellFigure& figure, int digits) {
  std::string text = FormatNumber(figure.value, digits);
  if (std::isfinite(figure.deviation)) text += " ± " + FormatNumber(figure.deviation, 2);
  return text;
}

std::string CellText(const Recipe& recipe, const RecipeResults& results, const RecipeRow& row,
                     const RecipeColumn& column) {
  if (row.is_published || IsQuoted(column)) {
    const double figure = PublishedFigure(recipe, row, column);
    return std::isfinite(figure) ? fmt::format("{}", figure) : kNothing;  // with as many digits as there
  }
  const CellResult* cell = CellOf(results, row, column);
  return cell == nullptr ? kNothing : FigureText(cell->figure, column.digits);
}

double RatioOf(const Recipe& recipe, const RecipeResults& results, const RecipeRow& row, const RecipeColumn& column) {
  const CellResult* cell = CellOf(results, row, column);
  return cell == nullptr ? CellFigure().value : cell->figure.value / PublishedFigure(recipe, row, column);
}

// Whether rows that run have published figures of their own, which then stand beside them.
bool HasPrinted(const Recipe& recipe, const RecipeColumn& column) {
  return !IsQuoted(column) && std::any_of(recipe.rows.begin(), recipe.rows.end(),
                                          [&](const RecipeRow& row) { return row.printed.contains(column.name); });
}

}  // namespace

Table RecipeTable(const Recipe& recipe, const RecipeResults& results, const ReproduceOptions& options) {
  std::vector<const RecipeColumn*> columns;
  Table table;
  table.columns = {""};
  for (const RecipeColumn& column : recipe.columns) {
    if (!Chosen(options.columns, column.name)) continue;
    columns.push_back(&column);
    table.columns.push_back(column.title);
    if (HasPrinted(recipe, column)) table.columns.insert(table.columns.end(), {"published", "ratio"});
  }
  for (const RecipeRow& row : recipe.rows) {
    const bool of_form = std::find(row.forms.begin(), row.forms.end(), options.form) != row.forms.end();
    if (!row.is_published && (!Chosen(options.rows, row.name) || !of_form)) continue;
    std::vector<std::string> cells{row.title}, ratios{"  ratio to the published"};
    bool compared = false;
    for (const RecipeColumn* column : columns) {
      cells.push_back(CellText(recipe, results, row, *column));
      const double ratio = row.is_published ? CellFigure().value : RatioOf(recipe, results, row, *column);
      if (HasPrinted(recipe, *column)) {
        const auto printed = row.printed.find(column->name);
        cells.push_back(printed == row.printed.end() ? kNothing : fmt::format("{}", printed->second));
        cells.push_back(FormatNumber(ratio, kRatioDigits));
        ratios.insert(ratios.end(), {"", "", ""});
        continue;
      }
      compared |= std::isfinite(ratio);
      ratios.push_back(FormatNumber(ratio, kRatioDigits));
    }
    table.Row(std::move(cells));
    if (compared) table.Row(std::move(ratios));
  }
  return table;
}

Table ClaimTable(const Recipe& recipe, const RecipeResults& results) {
  Table table{{"claim", "published", "ours", "verdict", "rule"}, {}};
  constexpr size_t kVerdict = 3, kRule = 4;
  table.words = {kVerdict, kRule};
  for (size_t i = 0; i < recipe.claims.size(); ++i) {
    const Claim& claim = recipe.claims[i];
    const Verdict& verdict = results.verdicts[i];
    std::string ours = FormatNumber(verdict.measured);
    if (std::isfinite(verdict.measured) && verdict.noise > 0) ours += " ± " + FormatNumber(verdict.noise, 2);
    table.Row({claim.text, claim.published ? fmt::format("{:.6g}", *claim.published) : kNothing, ours, verdict.words,
               RuleText(claim)});
  }
  return table;
}

std::string VerdictCounts(const std::vector<Verdict>& verdicts) {
  using Kind = Verdict::Kind;
  if (verdicts.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [kind, one, several] : {std::tuple(Kind::kHolds, "holds", "hold"),
                                           {Kind::kDirectionOnly, "holds in direction", "hold in direction"},
                                           {Kind::kNoDifference, "shows no difference", "show no difference"},
                                           {Kind::kFails, "does not hold", "do not hold"},
                                           {Kind::kNotJudged, "not judged", "not judged"},
                                           {Kind::kNotMeasured, "not measured", "not measured"}}) {
    const auto count = std::count_if(verdicts.begin(), verdicts.end(), [k = kind](auto& v) { return v.kind == k; });
    if (count > 0) parts.push_back(fmt::format("{} {}", count, count == 1 ? one : several));
  }
  return fmt::format("{} {}: {}", verdicts.size(), verdicts.size() == 1 ? "claim" : "claims", fmt::join(parts, ", "));
}

Table TraceTable(const Recipe& recipe, const RecipeResults& results) {
  Table table{{"figure", "value", "key", "file"}, {}};
  constexpr size_t kKey = 2, kFile = 3;
  table.words = {kKey, kFile};
  constexpr int kAllDigits = 9;
  for (const RecipeRow& row : recipe.rows)
    for (const RecipeColumn& column : recipe.columns)
      if (const CellResult* cell = CellOf(results, row, column); cell != nullptr && !cell->file.empty())
        table.Row({fmt::format("{}: {}", row.title, column.title), FormatNumber(cell->figure.value, kAllDigits),
                   fmt::format("{}", fmt::join(column.metric, " + ")), cell->file});
  return table;
}

Table RunTable(const RecipeResults& results) {
  Table table{{"run", "lshformer", "machine", "finished"}, {}};
  table.words = {1, 2, 3};
  for (const auto& [key, entry] : results.entries) {
    if (!entry.started) continue;
    const Json& machine = entry.machine;
    table.Row({key, entry.version + (entry.commit.empty() ? "" : " " + entry.commit),
               fmt::format("{}, {} threads, {}", machine.value("cpu", "?"), machine.value("threads", 0),
                           machine.value("isa", "?")),
               entry.finished ? TimeText(entry.finished_at) : "not yet"});
  }
  return table;
}

}  // namespace lshformer
