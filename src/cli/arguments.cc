#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/not_finite.h"
#include "cli/other_names.h"

namespace lshformer::cli {
namespace {

// A flag with its values, as given once.
struct GivenFlag {
  size_t level = 0;  // 0: the program's, 1: its command's, …
  const CLI::Option* option = nullptr;
  std::vector<std::string> values;
};

bool IsFlag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }
bool IsBoolean(const CLI::Option& option) { return option.get_expected_max() == 0 || option.get_type_size() == 0; }
bool TakesList(const CLI::Option& option) { return option.get_items_expected_max() > 1; }
bool MayRepeat(const CLI::Option& option) {
  return TakesList(option) || option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}
std::string TypeOf(const CLI::Option& option) {
  return option.get_type_name().substr(0, option.get_type_name().find(':'));
}
bool IsNumeric(const CLI::Option& option) {
  const std::string type = TypeOf(option);
  return type == "INT" || type == "UINT" || type == "FLOAT";
}
bool LooksNumeric(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789,") == std::string::npos;
}
bool IsHelp(const std::string& word) { return word == "--help" || word == "-h"; }

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (!command->get_name().empty()) names.push_back(command->get_name());
  return names;
}

// The command that takes dashes inside the names of flags for underscores, and this name for its --host: the flags of
// Text Embeddings Inference, which users of it have in scripts, are written so.
constexpr const char* kDashes = "serve";
constexpr const char* kItsHost = "--hostname";

// Reads the words of one command line, left to right.
class Reader {
 public:
  Reader(const CLI::App& app, const std::vector<std::string>& words) : words_(words), path_{&app} {}

  std::vector<std::string> Read() {
    while (next_ < words_.size()) ReadWord();
    RequireCommand();
    OverrideFile();
    return Ordered();
  }

 private:
  const CLI::App& command() const { return *path_.back(); }

  bool HasPositionals() const {
    const auto options = command().get_options([](const CLI::Option* option) { return option->get_positional(); });
    return !options.empty();
  }

  void ReadWord() {
    const std::string& word = words_[next_++];
    if (IsHelp(word)) {
      help_ = true;
    } else if (IsFlag(word)) {
      ReadFlag(word);
    } else if (word.size() > 1 && word[0] == '-') {
      FailUsage("unknown flag {}; flags begin with two dashes", Shown(word));
    } else if (!CommandNames(command()).empty()) {
      EnterCommand(word);
    } else if (next_ == after_command_ + 1 && word.ends_with(".json") && !IsInput(word)) {
      ReadFlagFile(word);
    } else {
      ReadPositional(word);
    }
  }

  // Of JSON files that may be meant as a positional argument: timings, recipes, and for `report` whatever else is no
  // file of flags, which the command names in its own error.
  bool IsInput(const std::string& path) const {
    if (!HasPositionals()) return false;
    const auto lists =
        command().get_options([](auto* option) { return option->get_positional() && TakesList(*option); });
    const Json file = lists.empty() ? ParseFlagFile(path) : ReadJsonFile(path);
    if (!file.is_object()) return true;
    if (file.contains("results") || file.contains("columns")) return true;
    if (file.contains("rows") && (file.contains("steps") || file.contains("title"))) return true;  // "columns" misspelt
    if (lists.empty() || file.empty()) return false;
    return !HasFlag(file, KnownFlags());
  }

  // Whether a key is a flag, or a slip of one.
  static bool HasFlag(const Json& file, const std::vector<std::string>& known) {
    for (const auto& [key, value] : file.items()) {
      const std::string flag = "--" + key;
      if (std::find(known.begin(), known.end(), flag) != known.end() || !Nearest(flag, known).empty()) return true;
    }
    return false;
  }

  // Of the command and those it inherits from.
  std::vector<std::string> KnownFlags() const {
    std::vector<std::string> known{"--help"};
    for (const CLI::App* app : path_)
      for (const CLI::Option* option : app->get_options(nullptr))
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    return known;
  }

  void EnterCommand(const std::string& word) {
    for (const CLI::App* command : command().get_subcommands(nullptr)) {
      if (command->get_name() != word) continue;
      path_.push_back(command);
      after_command_ = next_;
      return;
    }
    const std::vector<std::string> names = CommandNames(command());
    const std::string other = path_.size() == 1 ? CommandCalled(word, names) : "";
    FailUsage("unknown command \"{}{}\"{}", Prefix(), Shown(word),
              other.empty() ? Suggestion(word, names) : fmt::format(" (did you mean {}?)", other));
  }

  // "bench model ", the commands that were entered.
  std::string Commands() const {
    std::string names;
    for (size_t level = 1; level < path_.size(); ++level) names += path_[level]->get_name() + " ";
    return names;
  }

  // "bench " in front of the names of its commands.
  std::string Prefix() const { return path_.size() > 1 ? command().get_name() + " " : ""; }

  void RequireCommand() const {
    const bool version =
        std::any_of(given_.begin(), given_.end(), [](auto& f) { return f.option->check_name("--version"); });
    if (help_ || version || command().get_require_subcommand_min() == 0) return;
    if (path_.size() == 1) FailUsage("expected a command; lshformer --help lists them");
    FailUsage("{}: expected one of its commands: {}", command().get_name(), fmt::join(CommandNames(command()), ", "));
  }

  void ReadPositional(const std::string& word) {
    if (!HasPositionals() && word.ends_with(".json"))
      FailUsage("unexpected argument \"{}\"; a file of flags stands right after the command", Shown(word));
    if (!HasPositionals() && word.ends_with(".json.gz"))
      FailUsage("unexpected argument \"{}\"; a file of flags is plain JSON", Shown(word));
    if (!HasPositionals()) FailUsage("unexpected argument \"{}\"", Shown(word));
    const auto is_path = [](const CLI::Option* option) { return option->get_positional() && IsPath(*option); };
    const auto paths = command().get_options(is_path);
    if (word.empty() && !paths.empty())  // a variable of a script that was not set, never meant
      FailUsage("{}: expected a name, got \"\"", paths.front()->get_name(true, false));
    const auto is_folder = [](const CLI::Option* option) {
      return option->get_positional() && option->get_name(true, false) == "DIR";
    };
    if (!command().get_options(is_folder).empty()) RefuseFileForFolder(word, "DIR");
    positionals_.push_back(word);
  }

  // A model's weights, a vocabulary, an archive in place of the folder that is read.
  static void RefuseFileForFolder(const std::string& value, const std::string& name) {
    std::error_code error;
    const std::filesystem::path path(value);
    if (!std::filesystem::is_regular_file(path, error)) return;
    const std::string folder = path.parent_path().string();
    FailUsage("{}: {} is a file, expected a folder; that of the file is {}", name, Shown(value, 100),
              folder.empty() ? "." : Shown(folder, 100));
  }

  // The option of that name, of the innermost command that has it.
  GivenFlag Find(const std::string& flag, const std::string& where) const {
    std::string name = flag;
    if (command().get_name() == kDashes && name.size() > 2) {
      std::replace(name.begin() + 2, name.end(), '-', '_');
      if (name == kItsHost) name = "--host";
    }
    for (size_t level = path_.size(); level-- > 0;) {
      const CLI::Option* option = path_[level]->get_option_no_throw(name);
      if (option != nullptr && option->nonpositional()) return {level, option, {}};
    }
    FailUsage("{}unknown flag {}{}", where, Shown(flag), Hint(flag));
  }

  // What was meant by a flag that there is not: its name here, the argument that stands for it, or one much like it.
  std::string Hint(const std::string& flag) const {
    if (path_.size() == 1) {
      const std::string near = Suggestion(flag, KnownFlags());
      return near.empty() ? "; a command's own flags follow its name" : near;
    }
    const std::string called = FlagCalled(flag, KnownFlags());
    if (!called.empty()) return fmt::format(" (did you mean \"{}\"?)", called);
    if (MeansModelFolder(flag))
      for (const CLI::Option* option : command().get_options(nullptr))
        if (option->get_positional() && option->get_name(true, false) == "DIR")
          return fmt::format("; the folder is an argument without a flag: {}DIR", Commands());
    return Suggestion(flag, KnownFlags());
  }

  void ReadFlag(const std::string& word) {
    const size_t equals = word.find('=');
    GivenFlag flag = Find(word.substr(0, equals), "");
    const std::string name = word.substr(0, equals);
    if (equals != std::string::npos) {
      flag.values.push_back(word.substr(equals + 1));
    } else if (IsBoolean(*flag.option)) {
      flag.values.push_back(next_ < words_.size() && IsValueOfBoolean(words_[next_]) ? words_[next_++] : "true");
    } else {
      if (next_ == words_.size()) FailUsage("{}: expected a value", name);
      if (IsFlag(words_[next_]))
        FailUsage("{}: expected a value, got the flag {}; {}=TEXT gives it a value with two dashes", name,
                  Shown(words_[next_]), name);
      flag.values.push_back(words_[next_++]);
      // Where the command has positional arguments, words after the first value are those as long as none was given;
      // in a list of numbers all but numbers are.
      while (TakesList(*flag.option) && next_ < words_.size() && !IsFlag(words_[next_]) &&
             (!HasPositionals() || (IsNumeric(*flag.option) ? LooksNumeric(words_[next_]) : !positionals_.empty())))
        flag.values.push_back(words_[next_++]);
    }
    Add(given_, std::move(flag), name);
  }

  // A word that is no flag is meant as the value, right or wrong, unless it can be something else.
  bool IsValueOfBoolean(const std::string& word) const {
    if (word == "true" || word == "false") return true;
    return !IsFlag(word) && !HasPositionals() && CommandNames(command()).empty() && !word.ends_with(".json");
  }

  // Checks the values' syntax and keeps the flag.
  static void Add(std::vector<GivenFlag>& flags, GivenFlag flag, const std::string& name) {
    for (std::string& value : flag.values) CheckValue(*flag.option, value, name);
    // As in argparse the last one counts, so that a script can append flags to a fixed command line.
    if (!MayRepeat(*flag.option)) std::erase_if(flags, [&](const auto& given) { return given.option == flag.option; });
    flags.push_back(std::move(flag));
  }

  static void CheckValue(const CLI::Option& option, std::string& value, const std::string& name) {
    const std::string type = TypeOf(option);
    if (value.find('\0') != std::string::npos) FailUsage("{}: a NUL character", name);
    if (value.empty() && IsPath(option))
      FailUsage("{}: expected a {}, got \"\"", name, type == "FILE" ? "file" : "folder");
    if (type == "DIR" && !option.check_name("--output_dir")) RefuseFileForFolder(value, name);
    if (IsBoolean(option) || type == "BOOLEAN") {
      if (value != "true" && value != "false") FailUsage("{}: expected true or false, got \"{}\"", name, Shown(value));
    } else if (IsNumeric(option)) {
      std::string checked;
      const char delimiter = option.get_delimiter();
      for (size_t begin = 0; begin <= value.size();) {
        const size_t end = delimiter == '\0' ? value.size() : std::min(value.find(delimiter, begin), value.size());
        if (begin > 0) checked += delimiter;
        checked += CheckedNumber(value.substr(begin, end - begin), type, name);
        begin = end + 1;
      }
      value = checked;
    }
  }

  // CLI11 reads "0x10" and "010" as C does, and lets "nan" through; here a number is what JSON calls one.
  static std::string CheckedNumber(const std::string& value, const std::string& type, const std::string& name) {
    const char* const end = value.data() + value.size();
    if (type == "FLOAT") {
      double number = 0;
      const auto [last, error] = std::from_chars(value.data(), end, number);
      if (value.empty() || last != end || error == std::errc::invalid_argument || !std::isfinite(number))
        FailUsage("{}: expected a number, got \"{}\"", name, Shown(value));
      if (error == std::errc::result_out_of_range) FailUsage("{}: {} is out of range", name, Shown(value));
      return value;
    }
    const bool negative = value.starts_with('-');
    const std::string digits = value.substr(negative ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
      FailUsage("{}: expected an integer, got \"{}\"", name, Shown(value));
    if (negative && type == "UINT") FailUsage("{}: expected 0 or more, got {}", name, Shown(value));
    const size_t first = std::min(digits.find_first_not_of('0'), digits.size() - 1);
    int64_t signed_number = 0;
    uint64_t number = 0;
    const std::string plain = (negative ? "-" : "") + digits.substr(first);
    const auto out_of_range = [&](auto& target) {
      return std::from_chars(plain.data(), plain.data() + plain.size(), target).ec != std::errc();
    };
    if (type == "UINT" ? out_of_range(number) : out_of_range(signed_number))
      FailUsage("{}: {} is out of range", name, Shown(value));
    return plain;
  }

  // A file that cannot be read is a failure; one that is no JSON is wrong usage, as a wrong flag in it is.
  static Json ParseFlagFile(const std::string& path) {
    const std::string text = ReadFile(path, JsonLimits().bytes);
    if (text.starts_with("\x1F\x8B")) FailUsage("{}: is compressed; a file of flags is plain JSON", Shown(path));
    try {
      return ParseJson(text, path);
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
  }

  // What JSON has a kind of its own for: true, false, a number.
  static bool IsJsonScalar(const std::string& text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, number);
    return text == "true" || text == "false" || (last == end && error != std::errc::invalid_argument);
  }

  // Numbers are no text, and neither is an object; where either is meant the flag's type says so. Nor is text that
  // looks like a number or a switch one: a program that writes such a file has mixed up its types.
  static void CheckKind(const CLI::Option& option, const Json& value, const std::string& name) {
    const std::string type = TypeOf(option);
    const bool boolean = IsBoolean(option) || type == "BOOLEAN", number = IsNumeric(option);
    if (value.is_null() || value.is_array() || (value.is_object() && type.find("JSON") == type.npos))
      FailUsage("{}: expected a value, got {}", name, ShownValue(value));
    const bool takes_number = type.starts_with("auto|N") || type.ends_with("NUMBER");
    const bool has_kind = boolean || number || type == "auto|N" || type == "NUMBER";
    if (value.is_string() && has_kind && IsJsonScalar(value.get_ref<const std::string&>()))
      FailUsage("{}: expected a value without quotes, got the text {}", name, ShownValue(value));
    if (boolean || number) return;  // their syntax is checked as that of words
    if (value.is_boolean() || (value.is_number() && !takes_number))
      FailUsage("{}: expected text, got {}", name, ShownValue(value));
  }

  void ReadFlagFile(const std::string& path) {
    const Json file = ParseFlagFile(path);
    if (!file.is_object()) FailUsage("{}: expected an object of flags, got {}", Shown(path), ShownValue(file));
    for (const auto& [key, value] : file.items()) {
      const std::string where = fmt::format("{}: ", Shown(path));
      if (IsFlag(key)) FailUsage("{}{}: expected the flag's name without dashes", where, Shown(key));
      const std::string name = where + key;
      if (key == "device") {  // a flag before 0.1.0, which had one value
        if (value != "cpu") FailUsage("{}: models run on the CPU, got {}", name, ShownValue(value));
        continue;
      }
      GivenFlag flag = Find("--" + key, where);
      if (key.starts_with("help") || key == "version") FailUsage("{}: has no place in a file of flags", name);
      if (value.is_array() && !MayRepeat(*flag.option)) FailUsage("{}: takes one value, got a list", name);
      for (const Json& item : value.is_array() ? value : Json::array({value})) {
        CheckKind(*flag.option, item, name);
        flag.values.push_back(item.is_string()    ? item.get<std::string>()
                              : IsNotFinite(item) ? ShownValue(item)
                                                  : item.dump());
      }
      Add(file_, std::move(flag), name);
    }
  }

  void OverrideFile() {
    std::erase_if(file_, [&](const GivenFlag& flag) {
      return std::any_of(given_.begin(), given_.end(), [&](const GivenFlag& g) { return g.option == flag.option; });
    });
    given_.insert(given_.begin(), file_.begin(), file_.end());
  }

  // Each command's flags behind its name, positional arguments before the flags of the last one.
  std::vector<std::string> Ordered() const {
    std::vector<std::string> ordered;
    for (size_t level = 0; level < path_.size(); ++level) {
      const bool last = level + 1 == path_.size();
      if (level > 0) ordered.push_back(path_[level]->get_name());
      if (last) ordered.insert(ordered.end(), positionals_.begin(), positionals_.end());
      if (last && help_) ordered.push_back("--help");
      for (const GivenFlag& flag : given_) {
        if (flag.level != level) continue;
        const std::string name = "--" + flag.option->get_lnames().front();
        for (const std::string& value : flag.values) {
          if (IsBoolean(*flag.option)) {
            ordered.push_back(name + "=" + value);
          } else {
            ordered.push_back(name);
            ordered.push_back(value);
          }
        }
      }
    }
    return ordered;
  }

  const std::vector<std::string>& words_;
  size_t next_ = 0;
  std::vector<const CLI::App*> path_;  // the program, its command, that one's command
  bool help_ = false;
  size_t after_command_ = SIZE_MAX - 1;  // where a flag file may stand: the word behind the command's name
  std::vector<GivenFlag> given_, file_;
  std::vector<std::string> positionals_;
};

}  // namespace

bool IsPath(const CLI::Option& option) {
  const std::string type = TypeOf(option);
  return type == "FILE" || type == "RUN" || type.ends_with("DIR");
}

std::vector<std::string> OrderArguments(const CLI::App& app, const std::vector<std::string>& words) {
  return Reader(app, words).Read();
}

}  // namespace lshformer::cli
