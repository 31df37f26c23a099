#include "jobs/recipes/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/digest.h"
#include "base/error.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

// How a command is told where to write.
enum class Output { kFolder, kFile, kPrinted };
Output OutputOf(const std::string& command) {
  if (command == "synth" || command == "attention" || command == "tokenizer vectors") return Output::kFile;
  if (command == "info" || command.starts_with("bench ")) return Output::kPrinted;
  return Output::kFolder;
}
bool Resumes(const std::string& command) { return command == "pretrain" || command == "train"; }

bool IsPositional(const std::string& flag) {
  return std::all_of(flag.begin(), flag.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

template <class Part>
void RequireNames(const std::vector<std::string>& asked, const std::vector<Part>& parts, const char* option) {
  std::vector<std::string> known;
  for (const Part& part : parts) known.push_back(part.name);
  for (const std::string& name : asked)
    if (std::find(known.begin(), known.end(), name) == known.end())
      FailOption(option, "expected some of {}, got \"{}\"{}", fmt::join(known, ", "), Shown(name),
                 Suggestion(name, known));
}

// Plans the runs of one recipe, each when something asks for it.
class Planner {
 public:
  Planner(const Recipe& recipe, const ReproduceOptions& options, RecipePlan& plan, std::vector<Missing>& missing,
          std::vector<DataPath>& data)
      : recipe_(recipe), options_(options), plan_(plan), missing_(missing), data_(data) {}

  PlannedCells Plan() {
    RequireNames(options_.rows, recipe_.rows, "row");
    RequireNames(options_.columns, recipe_.columns, "column");
    PlannedCells cells;
    for (const RecipeRow& row : recipe_.rows) {
      if (!Chosen(options_.rows, row.name)) continue;
      for (const RecipeColumn& column : recipe_.columns)
        if (HasCell(recipe_, row, column, options_.form) && Chosen(options_.columns, column.name))
          cells[{row.name, column.name}] = PlanCell(row, *FindColumn(recipe_, SourceOf(column)));
    }
    AddMissingInputs();
    return cells;
  }

 private:
  // Where a run reads another one's result: the run, and what it has asked for so far.
  struct Reader {
    std::string name;  // of the run
    const RecipeRow* row = nullptr;
    std::vector<std::string> needs;
  };

  std::string PlanCell(const RecipeRow& row, const RecipeColumn& column) {
    Json flags = recipe_.flags;
    flags.update(column.flags);
    if (options_.form == Form::kQuick) flags.update(column.quick);
    flags.update(row.flags);
    if (const auto own = row.of_columns.find(column.name); own != row.of_columns.end()) flags.update(own->second);
    return PlanRun(row.name + "/" + column.name, column.command, flags, &row);
  }

  std::string PlanStep(const RecipeStep& step) {
    Json flags = step.flags;
    if (options_.form == Form::kQuick) flags.update(step.quick);
    return PlanRun(step.name, step.command, flags, nullptr);
  }

  // The key of the run; planned before or now. `own` is its name in the recipe.
  std::string PlanRun(const std::string& own, const std::string& command, const Json& flags, const RecipeRow* row) {
    if (const auto known = keys_.find(own); known != keys_.end()) return known->second;
    if (!open_.insert(own).second) Fail("{}: {} needs its own result", recipe_.name, own);
    Reader reader{own, row, {}};
    RecipeRun run{"", fmt::format("{} {}", recipe_.name, own), command, FilledFlags(flags, reader), reader.needs, ""};
    run.key = KeyOf(run);
    run.is_step = row == nullptr;
    AddOutput(run);
    open_.erase(own);
    keys_[own] = run.key;
    if (plan_.places.emplace(run.key, plan_.runs.size()).second)
      plan_.runs.push_back(run);
    else
      RequireSameSeeds(plan_.run(run.key), run);
    return run.key;
  }

  static void RequireSameSeeds(const RecipeRun& one, const RecipeRun& other) {
    if (one.flags.value("seeds", Json()) != other.flags.value("seeds", Json()))
      Fail("{} and {} are one run, but for \"seeds\": give both the same", one.name, other.name);
  }

  // Seeds may join later, and the folder of all runs may be another.
  std::string KeyOf(const RecipeRun& run) const {
    nlohmann::json flags = nlohmann::json(run.flags);  // in the order of their names
    flags.erase("seeds");
    std::string text = run.command + " " + flags.dump(), name = run.command;
    const std::string runs = RunsFolder(options_) + "/";
    for (size_t at = 0; (at = text.find(runs, at)) != std::string::npos;) text.erase(at, runs.size());
    std::replace(name.begin(), name.end(), ' ', '-');
    constexpr size_t kDigits = 12;
    return name + "-" + DigestOfText(text).substr(0, kDigits);
  }

  void AddOutput(RecipeRun& run) const {
    const std::string folder = RunsFolder(options_) + "/" + run.key;
    run.result = folder;
    if (Resumes(run.command)) run.flags["resume_from_checkpoint"] = "auto";
    if (OutputOf(run.command) == Output::kFolder) run.flags["output_dir"] = folder;
    if (OutputOf(run.command) != Output::kFile) return;
    const Json file = run.flags.value("output", Json());
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      Fail("{}: \"output\": expected the name of a file, got {}", run.name, ShownValue(file));
    run.flags["output"] = run.result = folder + "/" + file.get<std::string>();
  }

  // Without those that are null: a null takes away what stood there before.
  Json FilledFlags(const Json& flags, Reader& reader) {
    Json filled = Json::object();
    for (const auto& [name, value] : flags.items()) {
      if (value.is_null()) continue;
      filled[name] = Filled(value, name, reader);
    }
    return filled;
  }

  Json Filled(const Json& value, const std::string& flag, Reader& reader) {
    if (value.is_string()) return FilledText(value.get<std::string>(), flag, reader);
    if (!value.is_array()) return value;
    Json list = Json::array();
    for (const Json& item : value) {
      const Json filled = Filled(item, flag, reader);
      if (filled.is_array())
        list.insert(list.end(), filled.begin(), filled.end());
      else
        list.push_back(filled);
    }
    return list;
  }

  // The end of a name in braces that begin at `at`; npos where they hold something else, as in JSON.
  static size_t EndOfName(const std::string& text, size_t at) {
    const size_t end = text.find_first_not_of(kOfNames, at + 1);
    return end != std::string::npos && text[end] == '}' && end > at + 1 ? end : std::string::npos;
  }

  Json FilledText(const std::string& text, const std::string& flag, Reader& reader) {
    std::string filled;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text[at] == '{' ? EndOfName(text, at) : std::string::npos;
      if (end == std::string::npos) {
        filled += text[at++];
        continue;
      }
      const Json value = ValueOf(text.substr(at + 1, end - at - 1), flag, reader);
      if (at == 0 && end + 1 == text.size()) return value;
      filled += value.is_string() ? value.get<std::string>() : value.dump();
      at = end + 1;
    }
    return filled.ends_with("/*") && !lacks_ ? FilesOf(filled.substr(0, filled.size() - 2)) : Json(filled);
  }

  // What a name in braces stands for.
  Json ValueOf(const std::string& name, const std::string& flag, Reader& reader) {
    if (name == "data_dir") return DataDir();
    if (name == "row" && reader.row != nullptr) return reader.row->name;
    for (const RecipeInput& input : recipe_.inputs)
      if (input.name == name) return ValueOf(input, flag, reader);
    for (const RecipeStep& step : recipe_.steps)
      if (step.name == name) return ResultOf(PlanStep(step), reader);
    const size_t dot = name.find('.');
    const RecipeRow* row = dot == std::string::npos ? reader.row : FindRow(recipe_, name.substr(0, dot));
    const RecipeColumn* column = FindColumn(recipe_, dot == std::string::npos ? name : name.substr(dot + 1));
    if (row != nullptr && column != nullptr && column->of.empty() && HasCell(recipe_, *row, *column, options_.form))
      return ResultOf(PlanCell(*row, *column), reader);
    FailUnknown(name, flag);
  }

  Json ValueOf(const RecipeInput& input, const std::string& flag, Reader& reader) {
    if (const auto given = options_.inputs.find(input.name); given != options_.inputs.end())
      return GivenValue(given->second, input.what);
    const Json& value = input.value(options_.form);
    if (value.is_null()) {
      wanted_.insert(input.name);
      lacks_ = true;
      return "{" + input.name + "}";
    }
    if (!open_.insert(input.name).second) Fail("{}: input \"{}\" needs its own value", recipe_.name, input.name);
    AddDataPath(value, input.what);
    const Json filled = Filled(value, flag, reader);
    open_.erase(input.name);
    return filled;
  }

  Json GivenValue(const std::string& text, const std::string& what) {
    data_.push_back({text, what});
    const Json number = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (number.is_number()) return number;
    return text.ends_with("/*") ? FilesOf(text.substr(0, text.size() - 2)) : Json(text);
  }

  void AddDataPath(const Json& value, const std::string& what) {
    constexpr std::string_view kPlace = "{data_dir}";
    if (!value.is_string() || options_.data_dir.empty()) return;
    std::string path = value.get<std::string>();
    if (!path.starts_with(kPlace)) return;
    data_.push_back({path.replace(0, kPlace.size(), options_.data_dir), what});
  }

  Json DataDir() {
    if (!options_.data_dir.empty()) return options_.data_dir;
    lacks_ = needs_data_ = true;
    return "{data_dir}";
  }

  std::string ResultOf(const std::string& key, Reader& reader) const {
    if (std::find(reader.needs.begin(), reader.needs.end(), key) == reader.needs.end()) reader.needs.push_back(key);
    return plan_.run(key).result;
  }

  [[noreturn]] void FailUnknown(const std::string& name, const std::string& flag) const {
    std::vector<std::string> known{"data_dir", "row"};
    for (const RecipeInput& input : recipe_.inputs) known.push_back(input.name);
    for (const RecipeStep& step : recipe_.steps) known.push_back(step.name);
    for (const RecipeColumn& column : recipe_.columns) known.push_back(column.name);
    Fail("{}: flag \"{}\" asks for {{{}}}, which the recipe has not{}", recipe_.name, flag, Shown(name),
         Suggestion(name, known));
  }

  Json FilesOf(const std::string& folder) {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.is_regular_file(error)) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    if (files.empty())
      AddMissing({fmt::format("files in {}", Shown(folder, 100)),
                  fmt::format("{}: no folder with files{}", Shown(folder, 160), WhatBelongs(folder + "/*"))});
    return files;
  }

  // Of the input whose value the path is.
  std::string WhatBelongs(const std::string& path) const {
    for (const DataPath& known : data_)
      if (known.path == path && !known.what.empty()) return fmt::format("; there belongs: {}", known.what);
    return "";
  }

  void AddMissing(Missing missing) {
    if (std::none_of(missing_.begin(), missing_.end(),
                     [&](const Missing& other) { return other.name == missing.name; }))
      missing_.push_back(std::move(missing));
  }

  void AddMissingInputs() {
    if (needs_data_)
      AddMissing({Marked("data_dir"), fmt::format("{}: required: a folder with the data that docs/recipes.md lists; or "
                                                  "{} does without",
                                                  OptionName{"data_dir"}, OptionName{"quick"})});
    for (const RecipeInput& input : recipe_.inputs)
      if (wanted_.contains(input.name))
        AddMissing({input.name, fmt::format("{} {}=VALUE: required: {}", OptionName{"input"}, input.name, input.what)});
  }

  const Recipe& recipe_;
  const ReproduceOptions& options_;
  RecipePlan& plan_;
  std::vector<Missing>& missing_;
  std::vector<DataPath>& data_;
  std::map<std::string, std::string> keys_;  // names of runs in the recipe → keys
  std::set<std::string> open_;               // that are being planned
  std::set<std::string> wanted_;             // inputs that were asked for and not given
  bool needs_data_ = false, lacks_ = false;
};

std::string Quoted(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (!text.empty() && text.find_first_of(" \"'{}[]*$&;|<>()\\`!#~?\n\t") == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

bool Chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> RecipeRun::CommandWords() const {
  std::vector<std::string> words;
  std::istringstream text(command);
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> RecipeRun::Positionals() const {
  std::vector<std::string> words;
  for (const auto& [name, value] : flags.items())
    if (IsPositional(name)) words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return words;
}

Json RecipeRun::Flags() const {
  Json named = Json::object();
  for (const auto& [name, value] : flags.items())
    if (!IsPositional(name)) named[name] = value;
  return named;
}

std::string RunsFolder(const ReproduceOptions& options) { return options.output_dir + "/runs"; }

void Refuse(const std::vector<Missing>& missing) {
  if (missing.empty()) return;
  std::string others;
  for (size_t i = 1; i < missing.size(); ++i) others += (i == 1 ? "; and " : ", ") + missing[i].name;
  FailUsage("{}{}", missing[0].error, others);
}

PlannedCells PlanRecipe(const Recipe& recipe, const ReproduceOptions& options, RecipePlan& plan,
                        std::vector<Missing>& missing, std::vector<DataPath>& data) {
  return Planner(recipe, options, plan, missing, data).Plan();
}

void CheckInputs(const std::vector<Recipe>& recipes, const ReproduceOptions& options) {
  std::vector<std::string> known;
  for (const Recipe& recipe : recipes)
    for (const RecipeInput& input : recipe.inputs) known.push_back(input.name);
  for (const auto& [name, value] : options.inputs)
    if (std::find(known.begin(), known.end(), name) == known.end())
      FailOption("input", "the recipe has no input \"{}\"{}", Shown(name), Suggestion(name, known));
}

std::string FolderOfFile(const RecipeRun& run) {
  return run.flags.contains("output") ? fs::path(run.result).parent_path().string() : "";
}

std::string CommandLine(const RecipeRun& run) {
  std::string line = "lshformer " + run.command;
  for (const std::string& word : run.Positionals()) line += " " + Quoted(word);
  const Json flags = run.Flags();
  for (const auto& [name, value] : flags.items()) {
    line += " --" + name;
    if (value.is_boolean() && value.get<bool>()) continue;
    for (const Json& item : value.is_array() ? value : Json::array({value})) line += " " + Quoted(item);
  }
  return line;
}

std::string TypedLines(const RecipeRun& run) {
  const std::string line = CommandLine(run) + "\n", folder = FolderOfFile(run);
  return folder.empty() ? line : fmt::format("mkdir -p {}\n{}", Quoted(folder), line);
}

}  // namespace lshformer
