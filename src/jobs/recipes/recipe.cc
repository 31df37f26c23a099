// Reading recipes.
#include "jobs/recipes/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"

namespace lshformer {
namespace {

const std::vector<std::string> kCommands{"pretrain", "train", "evaluate", "tokenizer train"};

void RefuseOtherKeys(const Json& object, const std::vector<std::string>& known, const std::string& where) {
  if (!object.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(object));
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      Fail("{}: unknown key \"{}\"{}", where, Shown(key), Suggestion(key, known));
}

const Json& Member(const Json& object, const char* key, const std::string& where) {
  if (!object.contains(key)) Fail("{}: \"{}\" is missing", where, key);
  return object.at(key);
}

const Json& ListOf(const Json& object, const char* key, const std::string& where) {
  const Json& list = Member(object, key, where);
  if (!list.is_array()) Fail("{}: \"{}\": expected a list, got {}", where, key, ShownValue(list));
  return list;
}

std::string TextOr(const Json& object, const char* key, const std::string& where, const std::string& absent) {
  return object.contains(key) ? GetString(object, key, where) : absent;
}

void RefuseOwnFlags(const Json& flags, const std::string& where) {
  for (const char* name : {"output_dir", "resume_from_checkpoint"})
    if (flags.contains(name)) Fail("{}: \"{}\" is reproduce's to choose", where, name);
}

Json FlagsOf(const Json& object, const std::string& where) {
  if (!object.contains("flags")) return Json::object();
  const Json& flags = object.at("flags");
  if (!flags.is_object()) Fail("{}: \"flags\": expected an object, got {}", where, ShownValue(flags));
  RefuseOwnFlags(flags, where);
  return flags;
}

// A name is a folder too.
std::string NameIn(const Json& object, const std::string& where, std::set<std::string>& names) {
  if (!object.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(object));
  Member(object, "name", where);
  const std::string name = GetString(object, "name", where);
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (name == "report.html" || name.ends_with(".log") || name.ends_with(".flags.json"))
    Fail("{}: \"name\": {} is what reproduce writes", where, Shown(name));
  if (name.empty() || name[0] == '.' || !std::all_of(name.begin(), name.end(), is_plain))
    Fail("{}: \"name\": expected letters, digits, '-', '_' and '.', got \"{}\"", where, Shown(name));
  if (!names.insert(name).second) Fail("{}: \"{}\" stands there twice", where, name);
  return name;
}

std::string CommandOf(const Json& object, const std::string& where) {
  Member(object, "command", where);
  const std::string command = GetString(object, "command", where);
  if (std::find(kCommands.begin(), kCommands.end(), command) == kCommands.end())
    Fail("{}: \"command\": expected {}, got \"{}\"", where, fmt::join(kCommands, ", "), Shown(command));
  return command;
}

RecipeColumn ParseColumn(const Json& json, const std::string& where, std::set<std::string>& names) {
  RecipeColumn column;
  column.name = NameIn(json, where, names);
  RefuseOtherKeys(json, {"name", "title", "command", "of", "flags", "metric", "times"}, where);
  column.title = TextOr(json, "title", where, column.name);
  column.of = TextOr(json, "of", where, "");
  if (column.of.empty())
    column.command = CommandOf(json, where);
  else if (json.contains("command") || json.contains("flags"))
    Fail("{}: a figure \"of\" another column has no \"command\" or \"flags\" of its own", where);
  column.flags = FlagsOf(json, where);
  Member(json, "metric", where);
  column.metric = GetString(json, "metric", where);
  if (json.contains("times")) column.times = GetNumber(json, "times", where);
  return column;
}

const RecipeColumn& RequireColumn(const Recipe& recipe, const std::string& name, const std::string& where) {
  for (const RecipeColumn& column : recipe.columns)
    if (column.name == name) return column;
  Fail("{}: the recipe has no column \"{}\"", where, Shown(name));
}

RecipeRow ParseRow(const Json& json, const std::string& where, const Recipe& recipe, std::set<std::string>& names) {
  RecipeRow row;
  row.name = NameIn(json, where, names);
  RefuseOtherKeys(json, {"name", "title", "flags", "columns", "published"}, where);
  row.title = TextOr(json, "title", where, row.name);
  row.flags = FlagsOf(json, where);
  if (json.contains("columns")) {
    const Json& columns = json.at("columns");
    if (!columns.is_object()) Fail("{}: \"columns\": expected an object, got {}", where, ShownValue(columns));
    for (const auto& [column, flags] : columns.items()) {
      const RecipeColumn& known = RequireColumn(recipe, column, where);
      if (!flags.is_null() && !flags.is_object())
        Fail("{}: \"{}\": expected flags or null, got {}", where, column, ShownValue(flags));
      if (flags.is_object()) RefuseOwnFlags(flags, where);
      if (flags.is_object() && !known.of.empty())
        Fail("{}: \"{}\": a figure \"of\" another column has no flags", where, column);
      row.of_columns[column] = flags;
    }
  }
  if (!json.contains("published")) return row;
  row.is_published = true;
  const Json& published = json.at("published");
  if (!published.is_object()) Fail("{}: \"published\": expected an object, got {}", where, ShownValue(published));
  for (const auto& [column, value] : published.items()) {
    RequireColumn(recipe, column, where);
    row.published[column] = GetNumber(published, column, where);
  }
  return row;
}

}  // namespace

std::vector<std::string> RecipeNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  if (names.empty()) Fail("{}: no recipes; they are installed beside the program", Shown(folder, 160));
  std::sort(names.begin(), names.end());
  return names;
}

Recipe ReadRecipe(const std::string& name_or_file, const std::string& folder) {
  std::error_code error;
  std::string path = name_or_file;
  if (!name_or_file.ends_with(".json")) {
    path = folder + "/" + name_or_file + ".json";
    if (name_or_file.find('/') != std::string::npos || !std::filesystem::is_regular_file(path, error)) {
      const std::vector<std::string> names = RecipeNames(folder);
      FailUsage("no recipe \"{}\"{}; those of the program are {}, and a file of one's own ends in .json",
                Shown(name_or_file), Suggestion(name_or_file, names), fmt::join(names, ", "));
    }
  }
  Recipe recipe = ParseRecipe(ReadJsonFile(path), path);
  recipe.name = std::filesystem::path(path).stem().string();
  return recipe;
}

Recipe ParseRecipe(const Json& json, const std::string& where) {
  RefuseOtherKeys(json, {"title", "source", "hours", "notes", "inputs", "flags", "steps", "columns", "rows"}, where);
  Recipe recipe;
  Member(json, "title", where);
  recipe.title = GetString(json, "title", where);
  recipe.source = TextOr(json, "source", where, "");
  recipe.hours = TextOr(json, "hours", where, "");
  if (json.contains("notes"))
    for (const Json& note : ListOf(json, "notes", where)) {
      if (!note.is_string()) Fail("{}: \"notes\": expected texts, got {}", where, ShownValue(note));
      recipe.notes.push_back(note.get<std::string>());
    }
  if (json.contains("inputs")) {
    if (!json.at("inputs").is_object()) Fail("{}: \"inputs\": expected an object", where);
    for (const auto& [name, what] : json.at("inputs").items()) {
      if (name == "output" || name == "row") Fail("{}: \"inputs\": \"{}\" has a meaning already", where, name);
      if (name.empty() || name.find_first_of("={}") != std::string::npos)
        Fail("{}: \"inputs\": expected names without '=' and braces, got \"{}\"", where, Shown(name));
      recipe.inputs.emplace_back(name, GetString(json.at("inputs"), name, where + ": \"inputs\""));
    }
  }
  recipe.flags = FlagsOf(json, where);
  std::set<std::string> names;
  if (json.contains("steps"))
    for (const Json& step : ListOf(json, "steps", where)) {
      const std::string place = fmt::format("{}: step {}", where, recipe.steps.size() + 1);
      RecipeStep made{NameIn(step, place, names), CommandOf(step, place), FlagsOf(step, place)};
      RefuseOtherKeys(step, {"name", "command", "flags"}, place);
      recipe.steps.push_back(std::move(made));
    }
  std::set<std::string> column_names;
  for (const Json& column : ListOf(json, "columns", where))
    recipe.columns.push_back(
        ParseColumn(column, fmt::format("{}: column {}", where, recipe.columns.size() + 1), column_names));
  for (const RecipeColumn& column : recipe.columns) {
    if (column.of.empty()) continue;
    const std::string place = fmt::format("{}: column \"{}\"", where, column.name);
    if (!RequireColumn(recipe, column.of, place).of.empty()) Fail("{}: \"{}\" runs no command", place, column.of);
  }
  for (const Json& row : ListOf(json, "rows", where))
    recipe.rows.push_back(ParseRow(row, fmt::format("{}: row {}", where, recipe.rows.size() + 1), recipe, names));
  return recipe;
}

}  // namespace lshformer
