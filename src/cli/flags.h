// What several commands need to declare flags: checks whose errors say what was expected, and the attention flags.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/attention_spec.h"
#include "cli/commands.h"
#include "data/answer_search.h"

namespace lshformer::cli {

// Checks for option->check(…). A list is checked value by value. The help shows what they expect.
CLI::Validator OneOf(
    std::vector<std::string> names);  // "expected zero, mean or none, got "zreo" (did you mean "zero"?)"
CLI::Validator IntegerIn(int64_t low, int64_t high);    // both included; high ≥ INT32_MAX reads "at least low"
CLI::Validator NumberIn(double low, double high);       // both included; high DBL_MAX reads "at least low"
CLI::Validator AnyNumber();                             // finite
CLI::Validator NumberBelow(double low, double high);    // low ≤ x < high
CLI::Validator NumberBetween(double low, double high);  // low < x < high

// --lsh_*: all of AttentionChanges but --attention itself, for commands that take several --attention.
void AddLshFlags(CLI::App& app, AttentionChanges& flags);

// --doc_stride, --max_answer_length, --n_best_size, --version_2_with_negative, --null_score_diff_threshold.
void AddAnswerFlags(CLI::App& app, AnswerOptions& answers, int& doc_stride, const char* group);
// Of a command that has them: none with another task, no threshold without --version_2_with_negative.
void CheckAnswerFlags(const CLI::App& app, const AnswerOptions& answers, bool question_answering);

// No flag is taken and ignored: UsageError "FLAG: reason" for the first that was given.
void RefuseFlags(const CLI::App& command, std::initializer_list<const char*> names, const char* reason);

// Of the bench commands: --attention, repeated for several variants; --runs, --no_machine, --json.
void AddVariantsFlag(CLI::App& app, std::vector<std::string>& attention, const char* help, const char* group);
void AddMeasuringFlags(CLI::App& app, int& runs, bool& no_machine, bool& json);

}  // namespace lshformer::cli
