#include "cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/other_names.h"

namespace lshformer::cli {
namespace {

// A check of a flag's text: read(text) is its value or throws, good(value) decides; `range` is for help and errors.
template <class Read, class Good>
CLI::Validator Check(const std::string& range, const Read& read, const Good& good) {
  const auto check = [=](std::string& text) -> std::string {
    try {
      const std::string wrong = good(read(text));
      return wrong.empty() ? "" : fmt::format("{}, got {}", wrong, Shown(text));
    } catch (const Error&) {
      return fmt::format("expected {}, got {}", range, Shown(text));
    }
  };
  return CLI::Validator(check, range);
}

}  // namespace

CLI::Validator OneOf(std::vector<std::string> names) {
  const std::string help = fmt::format("{}", fmt::join(names, "|"));
  const auto check = [names = std::move(names)](std::string& value) {
    std::string error = NameError(names, value);
    const std::string called = error.empty() ? "" : ValueCalled(value, names);
    if (called.empty()) return error;
    const std::string nearest = Suggestion(value, names);  // knows letters alone
    if (error.ends_with(nearest)) error.resize(error.size() - nearest.size());
    return fmt::format("{} (did you mean \"{}\"?)", error, called);
  };
  return CLI::Validator(check, help);
}

CLI::Validator IntegerIn(int64_t low, int64_t high) {
  const std::string range = IntegerRange(low, high);
  return Check(range, IntegerOf, [=](const Json& value) -> std::string {
    const bool large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(high);
    if (large || value.get<int64_t>() > high)
      return fmt::format("expected {}", high >= INT32_MAX ? fmt::format("at most {}", high) : range);
    return value.get<int64_t>() < low ? fmt::format("expected {}", range) : "";
  });
}

CLI::Validator NumberIn(const NumberRange& range) {
  return Check(range.Text(), NumberOf, [=](const Json& value) -> std::string {
    return range.Holds(value.get<double>()) ? "" : fmt::format("expected {}", range.Text());
  });
}

void AddLshFlags(CLI::App& app, AttentionChanges& flags) {
  for (const LshKey& key : LshKeys())
    AddOptionFlag(app, "lsh_", *key.table, *key.option,
                  [&flags, name = key.option->name](Json value) { flags.keys[name] = std::move(value); });
}

void AddAttentionFlags(CLI::App& app, AttentionChanges& flags) {
  AddLshFlags(app, flags);
  app.add_option("--attention", flags.attention,
                 fmt::format("attention of every layer: {} (where a model has it already: with its own options), or a "
                             "JSON object",
                             fmt::join(AttentionNames(), ", ")))
      ->type_name("TYPE|JSON")
      ->check(CLI::Validator(
          [](std::string& value) -> std::string {
            ParseAttentionFlag(value);
            return "";
          },
          ""))
      ->group(LshKeys().front().table->group);
}

void AddVariantsFlag(CLI::App& app, std::vector<std::string>& attention, const char* help, const char* group) {
  app.add_option_function<std::vector<std::string>>(
         "--attention",
         [&attention](const std::vector<std::string>& values) {
           attention.clear();
           for (const std::string& value : values) {
             const auto parts = value.starts_with('{') ? std::vector{value} : CLI::detail::split(value, ',');
             attention.insert(attention.end(), parts.begin(), parts.end());
           }
         },
         help)
      ->default_str(fmt::format("{}", fmt::join(attention, ",")))
      ->type_name("TYPE|JSON")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
}

void AddMeasuringFlags(CLI::App& app, int& runs, bool& no_machine, bool& json) {
  const char* group = "Measuring";
  app.add_option("--runs", runs, "timed runs of each variant")->check(IntegerIn(1, 1'000'000))->group(group);
  app.add_flag("--no_machine", no_machine, "leave out the machine's own GEMM rate and memory bandwidth")->group(group);
  app.add_flag("--json", json, "JSON instead of a table")->group(group);
}

void CheckAnswerFlags(const CLI::App& app, const AnswerOptions& answers, bool question_answering) {
  for (const Option<AnswerOptions>& option : AnswerTable().options)
    if (!question_answering && app.count("--" + option.name) > 0)
      FailOption(option.name, "is for {} question-answering", OptionName{"task"});
  RefuseMeaningless(app, AnswerTable(), answers);
}

void RefuseFlags(const CLI::App& command, std::initializer_list<const char*> names, const char* reason) {
  for (const char* name : names) {
    if (command.count(name) > 0) FailUsage("{}: {}", name, reason);
  }
}

}  // namespace lshformer::cli
