// What a recipe runs, its running, and its table.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/signals.h"
#include "jobs/recipes/recipe.h"
#include "report/page.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// Texts for what stands in braces; inputs of the recipe that were not given, and those of them that a text asked for;
// folders of files that are none.
struct Names {
  std::map<std::string, std::string> texts;
  std::set<std::string> missing, needed, no_folders;
};

// Braces around one word that is no name: misspelt, for JSON has quotes there.
void RefuseUnknownNames(const std::string& text, const std::string& flag, const Names& names) {
  constexpr const char* kOfWords = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  for (size_t begin = 0; (begin = text.find('{', begin)) != std::string::npos;) {
    const size_t end = text.find_first_not_of(kOfWords, ++begin);
    if (end == std::string::npos || text[end] != '}' || end == begin) continue;
    const std::string name = text.substr(begin, end - begin);
    if (names.texts.contains(name) || names.missing.contains(name)) continue;
    std::vector<std::string> known(names.missing.begin(), names.missing.end());
    for (const auto& [given, value] : names.texts) known.push_back(given);
    Fail("the recipe's flag \"{}\" asks for an input {{{}}} that it has not{}", flag, Shown(name),
         Suggestion(name, known));
  }
}

// "{books}/train" with the names' texts in place. Braces around anything else stay: JSON has them too.
std::string Filled(std::string text, const std::string& flag, Names& names) {
  RefuseUnknownNames(text, flag, names);
  for (const std::string& name : names.missing)
    if (text.find("{" + name + "}") != std::string::npos) names.needed.insert(name);
  for (const auto& [name, value] : names.texts) {
    const std::string place = "{" + name + "}";
    for (size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += value.size())
      text.replace(at, place.size(), value);
  }
  return text;
}

std::vector<std::string> FilesOf(const std::string& folder, Names& names) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_regular_file(error)) files.push_back(entry.path().string());
  if (files.empty()) names.no_folders.insert(folder);
  std::sort(files.begin(), files.end());
  return files;
}

// A text that is one name alone is a number where the name stands for one: a learning rate.
Json FilledText(const std::string& text, const std::string& flag, Names& names) {
  const std::string filled = Filled(text, flag, names);
  if (filled.ends_with("/*") && names.needed.empty()) return FilesOf(filled.substr(0, filled.size() - 2), names);
  const bool one_name = text.starts_with('{') && text.find('}') == text.size() - 1;
  const Json number = one_name ? Json::parse(filled, nullptr, /*allow_exceptions=*/false) : Json();
  return number.is_number() ? number : Json(filled);
}

// Without those that are null: a null takes away what stood there before.
Json FilledFlags(const Json& flags, Names& names) {
  Json filled = Json::object();
  for (const auto& [name, value] : flags.items()) {
    if (value.is_null()) continue;
    filled[name] = value.is_string() ? FilledText(value.get<std::string>(), name, names) : value;
    if (!value.is_array()) continue;
    for (Json& item : filled[name])
      if (item.is_string()) item = Filled(item.get<std::string>(), name, names);
  }
  return filled;
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

bool Chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// The column whose command makes a column's figure.
const std::string& SourceOf(const RecipeColumn& column) { return column.of.empty() ? column.name : column.of; }

bool HasCell(const RecipeRow& row, const RecipeColumn& column) {
  if (row.is_published) return false;
  const auto left_out = [&](const std::string& name) {
    const auto own = row.of_columns.find(name);
    return own != row.of_columns.end() && own->second.is_null();
  };
  return !left_out(column.name) && !left_out(SourceOf(column));
}

// Whether the command of this column is to run for the columns that were asked for.
bool Needed(const Recipe& recipe, const RecipeColumn& column, const ReproduceOptions& options) {
  return column.of.empty() && std::any_of(recipe.columns.begin(), recipe.columns.end(), [&](const RecipeColumn& other) {
           return SourceOf(other) == column.name && Chosen(options.columns, other.name);
         });
}

Names KnownNames(const Recipe& recipe, const ReproduceOptions& options) {
  Names names;
  names.texts["output"] = options.output_dir;
  std::vector<std::string> known;
  for (const auto& [name, what] : recipe.inputs) {
    known.push_back(name);
    names.missing.insert(name);
  }
  for (const auto& [name, value] : options.inputs) {
    if (names.missing.erase(name) == 0)
      FailOption("input", "the recipe has no input \"{}\"{}", Shown(name), Suggestion(name, known));
    names.texts[name] = value;
  }
  return names;
}

std::string FolderOf(const RecipeRun& run, const ReproduceOptions& options) {
  return options.output_dir + "/" + run.name;
}

// An evaluation of a model that was made anew since is none.
bool IsStale(const RecipeRun& run, const std::string& results) {
  const Json model = run.flags.value("model_name_or_path", Json());
  std::error_code error;
  const auto made = fs::last_write_time(results, error);
  if (error || !model.is_string()) return false;
  const auto model_made = fs::last_write_time(model.get<std::string>() + "/model.safetensors", error);
  return !error && model_made > made;
}

bool Finished(const RecipeRun& run, const ReproduceOptions& options) {
  // pretrain and train know their own; a run that one of them has finished ends at once.
  if (run.command == "pretrain" || run.command == "train") return false;
  const bool evaluation = run.command == "evaluate";
  const std::string last = FolderOf(run, options) + (evaluation ? "/eval_results.json" : "/tokenizer_config.json");
  return fs::exists(last) && !(evaluation && IsStale(run, last));
}

// Refuses to take what was made with other flags for this one; but further seeds may join those that there are.
void WriteFlags(const RecipeRun& run, const std::string& path, const std::string& folder) {
  const auto but_seeds = [](Json flags) {
    flags.erase("seeds");
    return flags;
  };
  if (fs::exists(folder) && fs::exists(path) && but_seeds(ReadJsonObject(path)) != but_seeds(run.flags))
    Fail("{}: was made with other flags, those in {}; remove both or give another {}", folder, path,
         OptionName{"output_dir"});
  WriteFileAtomically(path, run.flags.dump(2) + "\n");
}

// Waits for a process; a signal that asks this one to stop is handed on, once.
int WaitFor(pid_t child) {
  int status = 0;
  bool told = false;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended < 0) Fail("waiting for a command: {}", std::strerror(errno));
    if (ended > 0) break;
    if (StopSignal() != 0 && !told) kill(child, StopSignal());
    told = StopSignal() != 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Ended {
  int status = 0;
  std::string error;  // the line that the command failed with, without "lshformer: "
};

// What a command that failed has written for this one.
std::string ErrorIn(int file) {
  std::string line(512, '\0');
  const ssize_t size = pread(file, line.data(), line.size(), 0);
  line.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  line = line.substr(0, line.find('\n'));
  constexpr std::string_view kProgram = "lshformer: ";
  return line.starts_with(kProgram) ? line.substr(kProgram.size()) : line;
}

// The environment with a place for the child's error.
std::vector<std::string> EnvironmentWith(int error) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  variables.push_back(fmt::format("{}={}", kErrorDescriptorVariable, error));
  return variables;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Ended RunProcess(const std::vector<std::string>& words, const std::string& log) {
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output < 0) Fail("{}: {}", log, std::strerror(errno));
  const int error = memfd_create("error", 0);  // the child inherits it; without one its line goes to stderr
  const std::vector<std::string> variables = EnvironmentWith(error);
  const std::vector<char*> arguments = Pointers(words), environment = Pointers(variables);
  // A signal that is handed on waits until the new program can heed it; this one's handler would swallow it.
  HoldStopSignals(true);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    setpgid(0, 0);  // Ctrl-C reaches this process alone, which hands it on: two would end the child at once
    // Killed, or gone with its terminal, this process hands nothing on: then the child, too, saves its state and ends.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    dup2(output, STDOUT_FILENO);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  HoldStopSignals(false);
  close(output);
  if (child < 0) Fail("cannot start a command: {}", std::strerror(errno));
  Ended ended{WaitFor(child), ""};
  ended.error = ErrorIn(error);
  close(error);
  return ended;
}

void RunOne(const RecipeRun& run, const ReproduceOptions& options) {
  const std::string base = FolderOf(run, options), flags = base + ".flags.json", log = base + ".log";
  MakeFolder(fs::path(base).parent_path().string());
  FolderLock(base, Marked("output_dir"));  // where another process is at work, its flags and log stay as they are
  WriteFlags(run, flags, base);
  if (Finished(run, options)) return;
  std::vector<std::string> words = run.CommandWords();
  words.insert(words.begin(), fs::read_symlink("/proc/self/exe").string());
  words.push_back(flags);
  words.insert(words.end(), options.common_flags.begin(), options.common_flags.end());
  const auto [status, error] = RunProcess(words, log);
  ThrowIfStopped("reproduce");
  if (status != 0)
    Fail("{}: {}{}lshformer {} ended with status {}; its output is {}", run.name, error, error.empty() ? "" : "; ",
         run.command, status, log);
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Figure {
  double value = kNone, deviation = kNone;
};

// Calls visit(path, results) for what a run has left, until that returns true.
template <class Visit>
void ForEachResults(const std::string& folder, const Visit& visit) {
  for (const char* name : {"all_results.json", "eval_results.json"}) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    if (fs::exists(path, error) && visit(path, ReadJsonObject(path))) return;
  }
}

// {"mean", "std"} where there were several seeds.
Figure ReadFigure(const std::string& folder, const std::string& metric) {
  Figure figure;
  ForEachResults(folder, [&](const std::string& path, const Json& results) {
    if (!HasValue(results, metric)) return false;
    const Json& value = results.at(metric);
    if (value.is_number()) figure.value = value.get<double>();
    if (value.is_object() && HasValue(value, "mean")) figure.value = GetNumber(value, "mean", path);
    if (value.is_object() && HasValue(value, "std")) figure.deviation = GetNumber(value, "std", path);
    return true;
  });
  return figure;
}

std::string CellFolder(const RecipeRow& row, const RecipeColumn& column, const ReproduceOptions& options) {
  return fmt::format("{}/{}/{}", options.output_dir, row.name, SourceOf(column));
}

constexpr int kDigits = 4;

std::string CellText(const RecipeRow& row, const RecipeColumn& column, const ReproduceOptions& options) {
  if (const auto printed = row.published.find(column.name); printed != row.published.end())
    return fmt::format("{}", printed->second);  // with as many digits as there
  if (!HasCell(row, column)) return "–";
  const Figure figure = ReadFigure(CellFolder(row, column, options), column.metric);
  std::string text = FormatNumber(figure.value * column.times, kDigits);
  if (std::isfinite(figure.deviation)) text += " ± " + FormatNumber(figure.deviation * column.times, 2);
  return text;
}

std::vector<Missing> MissingIn(const Recipe& recipe, const Names& names) {
  std::vector<Missing> missing;
  for (const auto& [name, what] : recipe.inputs)
    if (names.needed.contains(name))
      missing.push_back({name, fmt::format("{} {}=VALUE: required: {}", OptionName{"input"}, name, what)});
  for (const std::string& folder : names.no_folders)
    missing.push_back(
        {fmt::format("files in {}", Shown(folder, 100)), fmt::format("{}: no folder with files", Shown(folder, 160))});
  return missing;
}

}  // namespace

std::vector<std::string> RecipeRun::CommandWords() const {
  std::vector<std::string> words;
  std::istringstream text(command);
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

void Refuse(const std::vector<Missing>& missing) {
  if (missing.empty()) return;
  std::string others;
  for (size_t i = 1; i < missing.size(); ++i) others += (i == 1 ? "; and " : ", ") + missing[i].name;
  FailUsage("{}{}", missing[0].error, others);
}

std::vector<RecipeRun> PlanRecipe(const Recipe& recipe, const ReproduceOptions& options,
                                  std::vector<Missing>* missing) {
  RequireNames(options.rows, recipe.rows, "row");
  RequireNames(options.columns, recipe.columns, "column");
  Names names = KnownNames(recipe, options);
  std::vector<RecipeRun> runs;
  const auto add = [&](std::string name, const std::string& command, const Json& flags) {
    RecipeRun run{std::move(name), command, FilledFlags(flags, names)};
    if (command == "pretrain" || command == "train") run.flags["resume_from_checkpoint"] = "auto";
    run.flags["output_dir"] = FolderOf(run, options);
    runs.push_back(std::move(run));
  };
  for (const RecipeStep& step : recipe.steps) add(step.name, step.command, step.flags);
  for (const RecipeRow& row : recipe.rows) {
    if (!Chosen(options.rows, row.name)) continue;
    names.texts["row"] = row.name;
    for (const RecipeColumn& column : recipe.columns) {
      if (!HasCell(row, column) || !Needed(recipe, column, options)) continue;
      Json flags = recipe.flags;
      flags.update(column.flags);
      flags.update(row.flags);
      if (const auto own = row.of_columns.find(column.name); own != row.of_columns.end()) flags.update(own->second);
      add(row.name + "/" + column.name, column.command, flags);
    }
  }
  const std::vector<Missing> lacks = MissingIn(recipe, names);
  if (missing == nullptr)
    Refuse(lacks);
  else
    missing->insert(missing->end(), lacks.begin(), lacks.end());
  return runs;
}

std::string CommandLine(const RecipeRun& run) {
  std::string line = "lshformer " + run.command;
  const auto quoted = [](const Json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const bool plain = !text.empty() && text.find_first_of(" \"'{}[]*$&;|<>()\\`!#~?\n\t") == std::string::npos;
    if (plain) return text;
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  };
  for (const auto& [name, value] : run.flags.items()) {
    line += " --" + name;
    if (value.is_boolean() && value.get<bool>()) continue;
    for (const Json& item : value.is_array() ? value : Json::array({value})) line += " " + quoted(item);
  }
  return line;
}

void RunRecipe(const std::vector<RecipeRun>& runs, const ReproduceOptions& options) {
  for (const RecipeRun& run : runs) {
    ThrowIfStopped("reproduce");
    RunOne(run, options);
  }
}

Table RecipeTable(const Recipe& recipe, const ReproduceOptions& options) {
  Table table;
  table.columns = {""};
  for (const RecipeColumn& column : recipe.columns)
    if (Chosen(options.columns, column.name)) table.columns.push_back(column.title);
  for (const RecipeRow& row : recipe.rows) {
    if (!row.is_published && !Chosen(options.rows, row.name)) continue;
    std::vector<std::string> cells{row.title};
    for (const RecipeColumn& column : recipe.columns)
      if (Chosen(options.columns, column.name)) cells.push_back(CellText(row, column, options));
    table.Row(std::move(cells));
  }
  return table;
}

std::vector<std::string> UnknownMetrics(const Recipe& recipe, const ReproduceOptions& options) {
  std::vector<std::string> unknown;
  for (const RecipeColumn& column : recipe.columns) {
    if (!Chosen(options.columns, column.name)) continue;
    std::set<std::string> keys;
    for (const RecipeRow& row : recipe.rows) {
      if (!Chosen(options.rows, row.name) || !HasCell(row, column)) continue;
      ForEachResults(CellFolder(row, column, options), [&](const std::string&, const Json& results) {
        for (const auto& [key, value] : results.items()) keys.insert(key);
        return false;
      });
    }
    if (keys.empty() || keys.contains(column.metric)) continue;
    unknown.push_back(fmt::format("column \"{}\": no run has a metric \"{}\"{}", Shown(column.name),
                                  Shown(column.metric), Suggestion(column.metric, {keys.begin(), keys.end()})));
  }
  return unknown;
}

std::string RecipePage(const Recipe& recipe, const ReproduceOptions& options) {
  Page page(recipe.title, recipe.source);
  page.Add(RecipeTable(recipe, options));
  for (const std::string& note : recipe.notes) page.Paragraph(note);
  std::vector<std::string> lines;
  for (const RecipeRun& run : PlanRecipe(recipe, options)) lines.push_back(CommandLine(run));
  page.Commands(lines);
  return page.Html();
}

}  // namespace lshformer
