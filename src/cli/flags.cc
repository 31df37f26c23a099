#include "cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace lshformer::cli {
namespace {

// The whole of `text` as a number; false if it is none.
template <class Number>
bool ReadNumber(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// A check of numbers: `expected` is what the help and the error say, `good` decides. NaN is never good.
CLI::Validator NumberCheck(const std::string& expected, std::function<bool(double)> good) {
  const auto check = [expected, good = std::move(good)](std::string& value) -> std::string {
    double number = std::numeric_limits<double>::quiet_NaN();
    if (ReadNumber(value, number) && good(number)) return "";
    return fmt::format("expected {}, got {}", expected, Shown(value));
  };
  return CLI::Validator(check, expected);
}

}  // namespace

CLI::Validator OneOf(std::vector<std::string> names) {
  const std::string help = fmt::format("{}", fmt::join(names, "|"));
  return CLI::Validator([names = std::move(names)](std::string& value) { return NameError(names, value); }, help);
}

CLI::Validator IntegerIn(int64_t low, int64_t high) {
  const std::string expected = high >= INT32_MAX ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
  const auto check = [=](std::string& value) -> std::string {
    int64_t number = 0;
    if (ReadNumber(value, number) && number >= low && number <= high) return "";
    return fmt::format("expected {}, got {}",
                       number > high && high >= INT32_MAX ? fmt::format("at most {}", high) : expected, Shown(value));
  };
  return CLI::Validator(check, expected);
}

CLI::Validator NumberIn(double low, double high) {
  const std::string expected =
      high >= std::numeric_limits<double>::max() ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
  return NumberCheck(expected, [=](double x) { return x >= low && x <= high; });
}

CLI::Validator AnyNumber() {
  return NumberCheck("a number", [](double x) { return std::isfinite(x); });
}

CLI::Validator NumberBelow(double low, double high) {
  return NumberCheck(fmt::format("at least {} and below {}", low, high),
                     [=](double x) { return x >= low && x < high; });
}

CLI::Validator NumberBetween(double low, double high) {
  return NumberCheck(fmt::format("above {} and below {}", low, high), [=](double x) { return x > low && x < high; });
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

void AddAnswerFlags(CLI::App& app, AnswerOptions& answers, int& doc_stride, const char* group) {
  app.add_option("--doc_stride", doc_stride,
                 "tokens that windows of a long context share; -1: a third of --max_seq_length, at most 128")
      ->check(IntegerIn(-1, INT32_MAX))
      ->group(group);
  app.add_option("--max_answer_length", answers.max_answer_length, "tokens of an answer, at most")
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  app.add_option("--n_best_size", answers.n_best_size, "places of the start, of the end, and answers, to choose from")
      ->check(IntegerIn(1, kMostNBest))
      ->group(group);
  app.add_flag("--version_2_with_negative", answers.version_2, "SQuAD 2.0: a question may have no answer")
      ->group(group);
  app.add_option("--null_score_diff_threshold", answers.null_score_diff_threshold,
                 "with it: no answer where none's score minus the best one's is above")
      ->check(AnyNumber())
      ->group(group);
}

void CheckAnswerFlags(const CLI::App& app, const AnswerOptions& answers, bool question_answering) {
  if (!question_answering)
    RefuseFlags(app,
                {"--doc_stride", "--max_answer_length", "--n_best_size", "--version_2_with_negative",
                 "--null_score_diff_threshold"},
                "is for --task question-answering");
  if (!answers.version_2) RefuseFlags(app, {"--null_score_diff_threshold"}, "needs --version_2_with_negative");
}

void RefuseFlags(const CLI::App& command, std::initializer_list<const char*> names, const char* reason) {
  for (const char* name : names) {
    if (command.count(name) > 0) FailUsage("{}: {}", name, reason);
  }
}

}  // namespace lshformer::cli
