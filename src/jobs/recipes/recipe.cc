// Reading recipes.
#include "jobs/recipes/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/metric_direction.h"
#include "jobs/recipes/reading.h"

namespace lshformer {
namespace {

void RefuseOwnFlags(const Json& flags, const std::string& where) {
  for (const char* name : {"output_dir", "resume_from_checkpoint"})
    if (flags.contains(name)) Fail("{}: \"{}\" is reproduce's to choose", where, name);
}

Json FlagsOf(const Json& object, const char* key, const std::string& where) {
  if (object.contains(key) && object.at(key).is_null()) return Json::object();
  Json flags = OptionalObject(object, key, where);
  RefuseOwnFlags(flags, where);
  return flags;
}

// Names stand in braces and before the slash of a cell.
std::string NameIn(const Json& object, const std::string& where, std::set<std::string>& names) {
  if (!object.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(object));
  RequireMember(object, "name", where);
  const std::string name = GetString(object, "name", where);
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_plain))
    Fail("{}: \"name\": expected letters, digits, '-' and '_', got \"{}\"", where, Shown(name));
  if (!names.insert(name).second) Fail("{}: \"{}\" stands there twice", where, name);
  return name;
}

std::string CommandOf(const Json& object, const std::string& where) {
  RequireMember(object, "command", where);
  const std::string command = GetString(object, "command", where);
  PlaceOf(RecipeCommands(), command, "command", where);
  return command;
}

RecipeInput ParseInput(const std::string& name, const Json& json, const std::string& where) {
  const std::string place = fmt::format("{}: input \"{}\"", where, Shown(name));
  if (name == "row" || name == "data_dir") Fail("{}: has a meaning already", place);
  if (name.empty() || name.find_first_of("={}.") != std::string::npos)
    Fail("{}: \"inputs\": expected names without '=', '.' and braces, got \"{}\"", where, Shown(name));
  RecipeInput input{name, "", {}, {}};
  if (json.is_string()) {
    input.what = json.get<std::string>();
    return input;
  }
  RefuseOtherKeys(json, {"what", "quick", "full", "both"}, place);
  input.what = OptionalText(json, "what", place, "");
  if (json.contains("both")) input.quick = input.full = json.at("both");
  if (json.contains("quick")) input.quick = json.at("quick");
  if (json.contains("full")) input.full = json.at("full");
  return input;
}

std::vector<std::string> MetricOf(const Json& json, const std::string& where) {
  const Json& metric = RequireMember(json, "metric", where);
  if (!metric.is_array()) return {GetString(json, "metric", where)};
  const std::vector<std::string> terms = OptionalTexts(json, "metric", where);
  if (terms.empty()) Fail("{}: \"metric\": expected the key of a figure, got []", where);
  return terms;
}

// A command of its own, or that of an earlier step, with further flags over it.
RecipeStep ParseStep(const Json& json, const std::string& where, const Recipe& recipe, std::set<std::string>& names) {
  const std::string name = NameIn(json, where, names);
  if (!json.contains("like"))
    return {name, CommandOf(json, where), FlagsOf(json, "flags", where), FlagsOf(json, "quick", where)};
  if (json.contains("command")) Fail("{}: expected \"command\" or \"like\", got both", where);
  const std::string like = GetString(json, "like", where);
  for (const RecipeStep& step : recipe.steps) {
    if (step.name != like) continue;
    RecipeStep made{name, step.command, step.flags, step.quick};
    made.flags.update(FlagsOf(json, "flags", where));
    made.quick.update(FlagsOf(json, "quick", where));
    return made;
  }
  Fail("{}: \"like\": no step before it is called \"{}\"", where, Shown(like));
}

RecipeColumn ParseColumn(const Json& json, const std::string& where, const Recipe& recipe,
                         std::set<std::string>& names) {
  RecipeColumn column;
  column.name = NameIn(json, where, names);
  column.title = OptionalText(json, "title", where, column.name);
  column.of = OptionalText(json, "of", where, "");
  if (json.contains("command") || json.contains("like")) {
    std::set<std::string> others;
    RecipeStep step = ParseStep(json, where, recipe, others);
    column.command = step.command, column.flags = step.flags, column.quick = step.quick;
  }
  if (!column.of.empty() && (!column.command.empty() || json.contains("flags")))
    Fail("{}: a figure \"of\" another column has no \"command\" or \"flags\" of its own", where);
  column.in_quick_form = !json.contains("quick") || !json.at("quick").is_null();
  if (IsQuoted(column)) return column;
  column.metric = MetricOf(json, where);
  column.list = OptionalText(json, "list", where, "results");
  column.where = OptionalObject(json, "where", where);
  column.times = OptionalNumber(json, "times", where, 1);
  constexpr int kMostDigits = 17;
  if (json.contains("digits")) column.digits = static_cast<int>(GetInt(json, "digits", where, 1, kMostDigits));
  column.better = BetterDirection(column.metric[0]);
  const std::string better = OptionalText(json, "better", where, "");
  if (!better.empty()) column.better = PlaceOf({"lower", "higher"}, better, "better", where) == 0 ? -1 : 1;
  return column;
}

void AddColumn(const Json& json, const std::string& where, Recipe& recipe, std::set<std::string>& names) {
  RefuseOtherKeys(json,
                  {"name", "title", "command", "like", "of", "flags", "quick", "metric", "list", "where", "times",
                   "digits", "better"},
                  where);
  recipe.columns.push_back(ParseColumn(json, where, recipe, names));
}

const RecipeColumn& RequireColumn(const Recipe& recipe, const std::string& name, const std::string& where) {
  if (const RecipeColumn* column = FindColumn(recipe, name)) return *column;
  Fail("{}: the recipe has no column \"{}\"", where, Shown(name));
}

// Column → flags of its own, or null.
std::map<std::string, Json> FlagsByColumn(const Json& columns, const std::string& where, const Recipe& recipe) {
  std::map<std::string, Json> of_columns;
  for (const auto& [column, flags] : columns.items()) {
    const RecipeColumn& known = RequireColumn(recipe, column, where);
    if (!flags.is_null() && !flags.is_object())
      Fail("{}: \"{}\": expected flags or null, got {}", where, column, ShownValue(flags));
    if (flags.is_object()) RefuseOwnFlags(flags, where);
    if (flags.is_object() && !known.of.empty())
      Fail("{}: \"{}\": a figure \"of\" another column has no flags", where, column);
    of_columns[column] = flags;
  }
  return of_columns;
}

// Column → a figure as printed.
std::map<std::string, double> FiguresByColumn(const Json& columns, const std::string& where, const Recipe& recipe) {
  std::map<std::string, double> figures;
  for (const auto& [column, value] : columns.items()) {
    RequireColumn(recipe, column, where);
    figures[column] = GetNumber(columns, column, where);
  }
  return figures;
}

RecipeRow ParseRow(const Json& json, const std::string& where, const Recipe& recipe, std::set<std::string>& names) {
  RecipeRow row;
  row.name = NameIn(json, where, names);
  RefuseOtherKeys(json, {"name", "title", "flags", "where", "columns", "published", "printed", "against", "form"},
                  where);
  row.title = OptionalText(json, "title", where, row.name);
  row.flags = FlagsOf(json, "flags", where);
  row.where = OptionalObject(json, "where", where);
  row.of_columns = FlagsByColumn(OptionalObject(json, "columns", where), where, recipe);
  row.against = OptionalText(json, "against", where, "");
  row.forms = {Form::kQuick, Form::kFull};
  const std::string form = OptionalText(json, "form", where, "");
  if (!form.empty()) row.forms = {static_cast<Form>(PlaceOf({"quick", "full"}, form, "form", where))};
  row.is_published = json.contains("published");
  row.published = FiguresByColumn(OptionalObject(json, "published", where), where, recipe);
  row.printed = FiguresByColumn(OptionalObject(json, "printed", where), where, recipe);
  if (row.is_published && !row.printed.empty()) Fail("{}: \"printed\" is for rows that run", where);
  return row;
}

// `over` behind `base`, but of objects with a name that stands in both one is laid over the other.
Json MergedFlags(Json base, const Json& over);
Json MergedLists(Json base, const Json& over) {
  for (const Json& item : over) {
    const auto same = std::find_if(base.begin(), base.end(), [&](const Json& other) {
      return item.is_object() && other.is_object() && item.contains("name") && other.contains("name") &&
             item.at("name") == other.at("name");
    });
    if (same == base.end())
      base.push_back(item);
    else
      *same = MergedFlags(*same, item);
  }
  return base;
}

// Objects member by member; all else is replaced.
Json MergedFlags(Json base, const Json& over) {
  if (!base.is_object() || !over.is_object()) return over;
  for (const auto& [key, value] : over.items()) base[key] = base.contains(key) ? MergedFlags(base[key], value) : value;
  return base;
}

Json Merged(Json base, const Json& over) {
  for (const auto& [key, value] : over.items()) {
    if (!base.contains(key))
      base[key] = value;
    else
      base[key] =
          base[key].is_array() && value.is_array() ? MergedLists(base[key], value) : MergedFlags(base[key], value);
  }
  return base;
}

// With the parts that it names below it.
Json WithParts(const Json& json, const std::string& where, const std::string& folder) {
  if (!json.is_object() || !json.contains("parts")) return json;
  Json whole = Json::object();
  for (const std::string& name : OptionalTexts(json, "parts", where)) {
    const std::string path = fmt::format("{}/{}.json", folder, name);
    const Json part = ReadJsonObject(path);
    RefuseOtherKeys(part, {"source", "inputs", "flags", "steps", "columns", "rows", "defects", "notes"}, path);
    whole = Merged(whole, part);
  }
  Json own = json;
  own.erase("parts");
  return Merged(whole, own);
}

void CheckCell(const Recipe& recipe, const CellName& cell, const std::string& where) {
  if (FindRow(recipe, cell.row) == nullptr) Fail("{}: the recipe has no row \"{}\"", where, Shown(cell.row));
  RequireColumn(recipe, cell.column, where);
}

// What a claim follows from is there; what the source says of it follows from published rows where it is not given.
void FinishClaim(const Recipe& recipe, const std::string& where, Claim& claim) {
  CheckCell(recipe, claim.of, where);
  if (claim.measure != Claim::Measure::kValue) CheckCell(recipe, claim.other, where);
  const auto theirs = [&](const CellName& cell) -> std::optional<double> {
    const double figure = PublishedFigure(recipe, *FindRow(recipe, cell.row), *FindColumn(recipe, cell.column));
    return std::isfinite(figure) ? std::optional(figure) : std::nullopt;
  };
  if (claim.published) return;
  const std::optional<double> of = theirs(claim.of);
  if (claim.measure == Claim::Measure::kValue) {
    claim.published = of;
    return;
  }
  const std::optional<double> other = theirs(claim.other);
  if (of && other) claim.published = claim.measure == Claim::Measure::kRatio ? *of / *other : *of - *other;
}

void ParseTable(const Json& json, const std::string& where, Recipe& recipe) {
  std::set<std::string> names;  // of what may stand in braces
  const Json inputs = OptionalObject(json, "inputs", where);
  for (const auto& [name, what] : inputs.items()) {
    recipe.inputs.push_back(ParseInput(name, what, where));
    names.insert(name);
  }
  recipe.flags = FlagsOf(json, "flags", where);
  if (json.contains("steps"))
    for (const Json& step : ListOf(json, "steps", where)) {
      const std::string place = fmt::format("{}: step {}", where, recipe.steps.size() + 1);
      RefuseOtherKeys(step, {"name", "command", "like", "flags", "quick"}, place);
      recipe.steps.push_back(ParseStep(step, place, recipe, names));
    }
  for (const Json& column : ListOf(json, "columns", where))
    AddColumn(column, fmt::format("{}: column {}", where, recipe.columns.size() + 1), recipe, names);
  for (const RecipeColumn& column : recipe.columns) {
    if (column.of.empty()) continue;
    const std::string place = fmt::format("{}: column \"{}\"", where, column.name);
    if (!RequireColumn(recipe, column.of, place).of.empty()) Fail("{}: \"{}\" runs no command", place, column.of);
  }
  std::set<std::string> row_names;
  for (const Json& row : ListOf(json, "rows", where))
    recipe.rows.push_back(ParseRow(row, fmt::format("{}: row {}", where, recipe.rows.size() + 1), recipe, row_names));
  for (const RecipeRow& row : recipe.rows) {
    const RecipeRow* theirs = FindRow(recipe, row.against);
    if (!row.against.empty() && (theirs == nullptr || !theirs->is_published))
      Fail("{}: row \"{}\": \"against\": the recipe has no published row \"{}\"", where, row.name, Shown(row.against));
  }
}

void ParseWords(const Json& json, const std::string& where, Recipe& recipe) {
  RequireMember(json, "title", where);
  recipe.title = GetString(json, "title", where);
  recipe.source = OptionalText(json, "source", where, "");
  recipe.aliases = OptionalTexts(json, "aliases", where);
  recipe.former = OptionalText(json, "former", where, "");
  const Json minutes = OptionalObject(json, "minutes", where);
  RefuseOtherKeys(minutes, {"quick", "full"}, where + ": \"minutes\"");
  for (const Form form : {Form::kQuick, Form::kFull})
    if (minutes.contains(Name(form))) recipe.minutes[form] = GetNumber(minutes, Name(form), where);
  recipe.defects = OptionalTexts(json, "defects", where);
  recipe.notes = OptionalTexts(json, "notes", where);
}

void CheckFigure(const Recipe& recipe, const RecipeFigure& figure, const std::string& where) {
  for (const std::string& name : figure.rows)
    if (FindRow(recipe, name) == nullptr) Fail("{}: the recipe has no row \"{}\"", where, Shown(name));
  for (const std::string& name : figure.columns) RequireColumn(recipe, name, where);
  if (figure.kind == RecipeFigure::Kind::kPoints)
    for (const std::string& name : {figure.x, figure.y}) RequireColumn(recipe, name, where);
}

}  // namespace

const char* Name(Form form) { return form == Form::kQuick ? "quick" : "full"; }

const std::vector<std::string>& RecipeCommands() {
  static const std::vector<std::string> kCommands{
      "pretrain",        "train",       "evaluate",    "convert", "tokenizer train", "tokenizer vectors", "synth",
      "bench attention", "bench model", "bench train", "info",    "attention"};
  return kCommands;
}

const RecipeRow* FindRow(const Recipe& recipe, const std::string& name) {
  const auto found = std::find_if(recipe.rows.begin(), recipe.rows.end(), [&](auto& row) { return row.name == name; });
  return found == recipe.rows.end() ? nullptr : &*found;
}

const RecipeColumn* FindColumn(const Recipe& recipe, const std::string& name) {
  const auto found =
      std::find_if(recipe.columns.begin(), recipe.columns.end(), [&](auto& column) { return column.name == name; });
  return found == recipe.columns.end() ? nullptr : &*found;
}

const std::string& SourceOf(const RecipeColumn& column) { return column.of.empty() ? column.name : column.of; }

double PublishedFigure(const Recipe& recipe, const RecipeRow& row, const RecipeColumn& column) {
  if (const auto own = row.printed.find(column.name); own != row.printed.end()) return own->second;
  const RecipeRow* theirs = row.is_published ? &row : FindRow(recipe, row.against);
  const auto found = theirs == nullptr ? row.published.end() : theirs->published.find(column.name);
  if (theirs == nullptr || found == theirs->published.end()) return std::numeric_limits<double>::quiet_NaN();
  return found->second;
}

bool HasCell(const Recipe& recipe, const RecipeRow& row, const RecipeColumn& column, Form form) {
  if (row.is_published || IsQuoted(column)) return false;
  if (std::find(row.forms.begin(), row.forms.end(), form) == row.forms.end()) return false;
  if (form == Form::kQuick && !FindColumn(recipe, SourceOf(column))->in_quick_form) return false;
  const auto left_out = [&](const std::string& name) {
    const auto own = row.of_columns.find(name);
    return own != row.of_columns.end() && own->second.is_null();
  };
  return !left_out(column.name) && !left_out(SourceOf(column));
}

Recipe ReadRecipe(const std::string& path, const std::string& name, const std::string& parts_folder) {
  Recipe recipe = ParseRecipe(ReadJsonFile(path), path, parts_folder);
  recipe.name = name;
  return recipe;
}

Recipe ParseRecipe(const Json& given, const std::string& where, const std::string& parts_folder) {
  const Json json = WithParts(given, where, parts_folder);
  RefuseOtherKeys(json,
                  {"title", "source", "aliases", "former", "minutes", "defects", "notes", "inputs", "flags", "steps",
                   "columns", "rows", "claims", "figures"},
                  where);
  Recipe recipe;
  ParseWords(json, where, recipe);
  ParseTable(json, where, recipe);
  if (json.contains("claims"))
    for (const Json& claim : ListOf(json, "claims", where)) {
      const std::string place = fmt::format("{}: claim {}", where, recipe.claims.size() + 1);
      recipe.claims.push_back(ParseClaim(claim, place));
      FinishClaim(recipe, place, recipe.claims.back());
    }
  if (json.contains("figures"))
    for (const Json& figure : ListOf(json, "figures", where)) {
      const std::string place = fmt::format("{}: figure {}", where, recipe.figures.size() + 1);
      recipe.figures.push_back(ParseFigure(figure, place));
      CheckFigure(recipe, recipe.figures.back(), place);
    }
  return recipe;
}

}  // namespace lshformer
