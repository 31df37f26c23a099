// What several commands need to declare flags: checks whose errors say what was expected, and the attention flags.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/attention_spec.h"
#include "cli/commands.h"

namespace lshformer::cli {

// Checks for option->check(…). A list is checked value by value. The help shows what they expect.
CLI::Validator OneOf(
    std::vector<std::string> names);  // "expected zero, mean or none, got "zreo" (did you mean "zero"?)"
CLI::Validator IntegerIn(int64_t low, int64_t high);  // both included; high ≥ INT32_MAX reads "at least low"
CLI::Validator NumberIn(double low, double high);     // both included; high DBL_MAX reads "at least low"
CLI::Validator NumberBelow(double low, double high);  // low ≤ x < high

// --lsh_*: all of AttentionFlags but --attention itself, for commands that take several --attention.
void AddLshFlags(CLI::App& app, AttentionFlags& flags);

// The value of one --attention: a type name or a JSON object. UsageError.
AttentionSpec ParseAttentionFlag(std::string_view value);

}  // namespace lshformer::cli
