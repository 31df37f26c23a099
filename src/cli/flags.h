// What several commands need to declare flags: checks whose errors say what was expected, and the attention flags.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/option_table.h"
#include "cli/commands.h"
#include "data/answer_search.h"

namespace lshformer::cli {

// Checks for option->check(…). A list is checked value by value. The help shows what they expect.
CLI::Validator OneOf(
    std::vector<std::string> names);  // "expected zero, mean or none, got "zreo" (did you mean "zero"?)"
CLI::Validator IntegerIn(int64_t low, int64_t high);  // both included; high ≥ INT32_MAX reads "at least low"
CLI::Validator NumberIn(const NumberRange& range);

// The flag of an option, "--", `prefix` and its name: help, default and check are the table's, which has to live as
// long as the app. The value given goes to set(JSON value). That it suits the others is for ReadOptions to say.
template <class Struct>
CLI::Option* AddOptionFlag(CLI::App& app, const std::string& prefix, const OptionTable<Struct>& table,
                           const Option<Struct>& option, std::function<void(Json)> set) {
  const std::string flag = "--" + prefix + option.name, group = option.group.empty() ? table.group : option.group;
  if (option.type == OptionType::kBoolean) {
    return app
        .add_flag_function(
            flag, [set = std::move(set)](int64_t count) { set(count > 0); }, option.help)
        ->default_str(DefaultText(table, option))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->group(group);
  }
  if (option.type == OptionType::kPaths) {
    return app
        .add_option_function<std::vector<std::string>>(
            flag, [set = std::move(set)](const std::vector<std::string>& paths) { set(Json(paths)); }, option.help)
        ->required(option.required)
        ->type_name(option.syntax)
        ->group(group);
  }
  CLI::Option* added = app.add_option_function<std::string>(
      flag, [&option, set = std::move(set)](const std::string& text) { set(option.from_text(text)); }, option.help);
  added->default_str(DefaultText(table, option))->group(group);
  if (option.required) added->required();
  if (option.type == OptionType::kName) return added->check(OneOf(option.names));
  if (option.type != OptionType::kText || !option.syntax.empty())
    added->type_name(option.type == OptionType::kInteger  ? "INT"
                     : option.type == OptionType::kNumber ? "FLOAT"
                                                          : option.syntax);
  if (option.type == OptionType::kPath) return added;
  return added->check(
      CLI::Validator([&table, &option](std::string& text) { return TextError(table, option, text); }, option.range));
}

// A flag for every option of a table that has a line of help; what is given goes into `into`. `group`, where given,
// instead of the table's own. Returns the flags' names.
template <class Struct>
std::vector<std::string> AddTableFlags(CLI::App& app, const OptionTable<Struct>& table, Struct& into,
                                       const std::string& group = "") {
  std::vector<std::string> names;
  for (const Option<Struct>& option : table.options) {
    if (option.help.empty()) continue;
    CLI::Option* added = AddOptionFlag(app, /*prefix=*/"", table, option, [&into, &option](const Json& value) {
      option.read(Json{{option.name, value}}, "", into);
    });
    if (!group.empty()) added->group(group);
    names.push_back("--" + option.name);
  }
  return names;
}

// No flag is taken and ignored: OptionError for the first that was given and says nothing beside the others.
template <class Struct>
void RefuseMeaningless(const CLI::App& app, const OptionTable<Struct>& table, const Struct& options) {
  for (const Option<Struct>& option : table.options) {
    if (option.help.empty() || !option.without_meaning || app.count("--" + option.name) == 0) continue;
    if (const std::string reason = option.without_meaning(options); !reason.empty())
      FailOption(option.name, "{}", reason);
  }
}

// --lsh_*: all of AttentionChanges but --attention itself, for commands that take several --attention.
void AddLshFlags(CLI::App& app, AttentionChanges& flags);

// Of a command that has the flags of AnswerTable: none with another task, no threshold without
// --version_2_with_negative.
void CheckAnswerFlags(const CLI::App& app, const AnswerOptions& answers, bool question_answering);

// No flag is taken and ignored: UsageError "FLAG: reason" for the first that was given.
void RefuseFlags(const CLI::App& command, std::initializer_list<const char*> names, const char* reason);

// Of the bench commands: --attention, repeated for several variants; --runs, --no_machine, --json.
void AddVariantsFlag(CLI::App& app, std::vector<std::string>& attention, const char* help, const char* group);
void AddMeasuringFlags(CLI::App& app, int& runs, bool& no_machine, bool& json);

}  // namespace lshformer::cli
