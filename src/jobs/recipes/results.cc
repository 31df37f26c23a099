#include "jobs/recipes/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "io/safetensors.h"
#include "lshformer/version.h"
#include "report/runs.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using Results = std::vector<std::pair<std::string, Json>>;  // by file

// The counts that `attention` leaves beside its tensors.
Json MetadataOf(const std::string& path) {
  Json counts = Json::object();
  const SafetensorsFile file(path);
  for (const auto& [key, value] : file.metadata()) {
    const Json number = Json::parse(value, nullptr, /*allow_exceptions=*/false);
    counts[key] = number.is_number() ? number : Json(value);
  }
  return counts;
}

bool HasValues(const Json& row, const Json& where) {
  for (const auto& [path, value] : where.items())
    if (ValueAt(row, path) != value) return false;
  return true;
}

// {"mean", "std"} where there were several seeds.
CellFigure FigureIn(const Json& value, const std::string& file) {
  CellFigure figure;
  if (value.is_number()) figure.value = value.get<double>();
  if (value.is_object() && HasValue(value, "mean")) figure.value = GetNumber(value, "mean", file);
  if (value.is_object() && HasValue(value, "std")) figure.deviation = GetNumber(value, "std", file);
  return figure;
}

// The figure of a column and row in one file of results: null where that lacks a term of it.
std::optional<CellFigure> FigureOf(const RecipeColumn& column, const Json& where, const Json& results,
                                   const std::string& file) {
  Json from = results;
  // Rows of the table tell rows of results apart; results without any are one row.
  if (!where.empty() && (results.contains(column.list) || !column.where.empty())) {
    const std::vector<Json> rows = RowsWhere(results, column.list, where);
    if (rows.empty()) return std::nullopt;
    from = rows[0];
  }
  CellFigure sum;
  sum.value = 0;
  for (const std::string& term : column.metric) {
    const bool minus = term.starts_with('-');
    const Json value = ValueAt(from, minus ? term.substr(1) : term);
    if (value.is_null()) return std::nullopt;
    const CellFigure figure = FigureIn(value, file);
    sum.value += minus ? -figure.value : figure.value;
    if (column.metric.size() == 1) sum.deviation = figure.deviation;
  }
  sum.value *= column.times;
  sum.deviation *= std::abs(column.times);
  return sum;
}

CellResult ReadCell(const RecipeColumn& column, const Json& where, const std::string& key, const Results& files) {
  CellResult cell;
  cell.run = key;
  for (const auto& [file, results] : files) {
    const std::optional<CellFigure> figure = FigureOf(column, where, results, file);
    if (!figure) continue;
    cell.figure = *figure;
    cell.file = file;
    break;
  }
  return cell;
}

// All keys of figures in results: of a table of timings those of its rows.
void AddKeys(const Json& results, const std::string& list, std::set<std::string>& keys) {
  for (const auto& [key, value] : results.items()) keys.insert(key);
  if (results.contains(list) && results.at(list).is_array())
    for (const Json& row : results.at(list))
      for (const auto& [key, value] : row.items()) keys.insert(key);
}

class Reader {
 public:
  Reader(const Recipe& recipe, const PlannedCells& cells, const RecipePlan& plan, const ReproduceOptions& options)
      : recipe_(recipe), cells_(cells), plan_(plan), options_(options) {}

  RecipeResults Read() {
    for (const auto& [cell, key] : cells_) ReadRun(key);
    for (const RecipeColumn& column : recipe_.columns) ReadColumn(column);
    for (const Claim& claim : recipe_.claims)
      results_.verdicts.push_back(
          Judge(claim, FigureAt(claim.of), FigureAt(claim.other), options_.form == Form::kQuick));
    return std::move(results_);
  }

 private:
  void ReadRun(const std::string& key) {
    if (files_.contains(key)) return;
    const RecipeRun& run = plan_.run(key);
    results_.entries[key] = ReadEntry(run, options_);
    files_[key] = results_.entries[key].finished ? ReadRunResults(run, options_) : Results();
  }

  void ReadColumn(const RecipeColumn& column) {
    std::set<std::string> keys;
    bool found = false;
    for (const RecipeRow& row : recipe_.rows) {
      const auto planned = cells_.find({row.name, column.name});
      if (planned == cells_.end()) continue;
      const Results& files = files_.at(planned->second);
      for (const auto& [file, results] : files) AddKeys(results, column.list, keys);
      Json where = column.where;
      where.update(row.where);
      CellResult cell = ReadCell(column, WithInputs(recipe_, where, options_), planned->second, files);
      found |= !cell.file.empty();
      results_.cells[planned->first] = std::move(cell);
    }
    if (found || keys.empty()) return;
    const std::string metric = fmt::format("{}", fmt::join(column.metric, " + "));
    results_.unknown.push_back(fmt::format("column \"{}\": no run has a metric \"{}\"{}", Shown(column.name),
                                           Shown(metric), Suggestion(metric, {keys.begin(), keys.end()})));
  }

  CellFigure FigureAt(const CellName& name) const {
    const RecipeRow* row = FindRow(recipe_, name.row);
    const auto found = results_.cells.find({name.row, name.column});
    if (found != results_.cells.end()) return found->second.figure;
    CellFigure published;  // a claim may be of two published figures, too
    if (row != nullptr && row->is_published && row->published.contains(name.column))
      published.value = row->published.at(name.column);
    return published;
  }

  const Recipe& recipe_;
  const PlannedCells& cells_;
  const RecipePlan& plan_;
  const ReproduceOptions& options_;
  std::map<std::string, Results> files_;
  RecipeResults results_;
};

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json CellsJson(const Recipe& recipe, const RecipeResults& results) {
  Json cells = Json::array();
  for (const RecipeRow& row : recipe.rows) {
    for (const RecipeColumn& column : recipe.columns) {
      const double published = PublishedFigure(recipe, row, column);
      const auto found = results.cells.find({row.name, column.name});
      if (found == results.cells.end()) {
        if (row.is_published && std::isfinite(published))
          cells.push_back(Json{{"row", row.name}, {"column", column.name}, {"published", published}});
        continue;
      }
      const CellResult& cell = found->second;
      cells.push_back(Json{{"row", row.name},
                           {"column", column.name},
                           {"value", NumberOrNull(cell.figure.value)},
                           {"deviation", NumberOrNull(cell.figure.deviation)},
                           {"published", NumberOrNull(published)},
                           {"ratio", NumberOrNull(cell.figure.value / published)},
                           {"file", cell.file.empty() ? Json() : Json(cell.file)},
                           {"metric", fmt::format("{}", fmt::join(column.metric, " + "))},
                           {"run", cell.run}});
    }
  }
  return cells;
}

}  // namespace

std::vector<std::pair<std::string, Json>> ReadRunResults(const RecipeRun& run, const ReproduceOptions& options) {
  if (run.command == "attention") return {{run.result, MetadataOf(run.result)}};
  std::vector<std::string> paths;
  if (run.command == "info" || run.command.starts_with("bench "))
    paths = {LogPath(run, options)};
  else
    for (const char* name : {"all_results.json", "eval_results.json", "convert_report.json"})
      paths.push_back(run.result + "/" + name);
  std::vector<std::pair<std::string, Json>> files;
  const auto read = [&](const std::string& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return;
    try {
      files.emplace_back(path, ReadJsonObject(path));
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& cut) {
      Fail("{}; remove {}/{}*, and the run is made again", cut.what(), RunsFolder(options), run.key);
    }
  };
  for (const std::string& path : paths) read(path);
  // A summary of seeds has no times: those are of the first run.
  const Json seeds = files.empty() ? Json() : files[0].second.value("seeds", Json());
  if (seeds.is_array() && !seeds.empty() && seeds[0].is_number_unsigned())
    read(SeedFolder(run.result, seeds[0].get<uint64_t>()) + "/all_results.json");
  return files;
}

Json ValueAt(const Json& object, const std::string& path) {
  const Json* at = &object;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '/');) {
    if (!at->is_object() || !at->contains(key)) return {};
    at = &at->at(key);
  }
  return *at;
}

std::vector<Json> RowsWhere(const Json& results, const std::string& list, const Json& where) {
  std::vector<Json> rows;
  if (results.contains(list) && results.at(list).is_array())
    for (const Json& row : results.at(list))
      if (HasValues(row, where)) rows.push_back(row);
  return rows;
}

Json WithInputs(const Recipe& recipe, Json where, const ReproduceOptions& options) {
  for (auto& [key, value] : where.items()) {
    for (const RecipeInput& input : recipe.inputs) {
      if (value != "{" + input.name + "}") continue;
      const auto given = options.inputs.find(input.name);
      value = given == options.inputs.end() ? input.value(options.form)
                                            : Json::parse(given->second, nullptr, /*allow_exceptions=*/false);
      break;
    }
  }
  return where;
}

RecipeResults ReadResults(const Recipe& recipe, const PlannedCells& cells, const RecipePlan& plan,
                          const ReproduceOptions& options) {
  return Reader(recipe, cells, plan, options).Read();
}

Json ToJson(const Recipe& recipe, const RecipeResults& results, const RecipePlan& plan,
            const ReproduceOptions& options) {
  Json claims = Json::array(), runs = Json::object();
  for (size_t i = 0; i < recipe.claims.size(); ++i) {
    const Claim& claim = recipe.claims[i];
    const Verdict& verdict = results.verdicts[i];
    claims.push_back(Json{{"claim", claim.text},
                          {"published", claim.published ? Json(*claim.published) : Json()},
                          {"measured", NumberOrNull(verdict.measured)},
                          {"rule", RuleText(claim)},
                          {"verdict", verdict.words},
                          {"kind", Name(verdict.kind)}});
  }
  for (const auto& [key, entry] : results.entries) {
    runs[key] = Json{{"command", CommandLine(plan.run(key))},
                     {"lshformer", {{"version", entry.version}, {"commit", entry.commit}}},
                     {"machine", entry.machine},
                     {"started_at", entry.started ? Json(TimeText(entry.started_at)) : Json()},
                     {"finished_at", entry.finished ? Json(TimeText(entry.finished_at)) : Json()}};
  }
  return Json{{"recipe", recipe.name},
              {"title", recipe.title},
              {"source", recipe.source},
              {"form", Name(options.form)},
              {"lshformer", LSHFORMER_VERSION},
              {"cells", CellsJson(recipe, results)},
              {"claims", claims},
              {"runs", runs}};
}

}  // namespace lshformer
