// The words of the command line, put in order before CLI11 converts and checks the values.
//
// CLI11 would take the next flag for a missing value ("--output --input f"), a negative number for a flag, "010" for 8
// and a word after a boolean for a positional argument. Here each flag gets its values by its declaration, with an
// error that says what was expected; what CLI11 sees afterwards can be read in one way only.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lshformer::cli {

// `words` without the program's name. Flags may stand before or after the command they belong to or inherit from;
// "--flag=value", "--flag value", a bare boolean and "--flag true|false" are the same. A word ending in ".json" right
// after the command is a flag file, {"flag": value, …}: numbers, strings, booleans, objects where the flag takes JSON,
// and lists (the flag repeated); flags of the command line replace the file's. Throws UsageError; Error when the file
// cannot be read.
std::vector<std::string> OrderArguments(const CLI::App& app, const std::vector<std::string>& words);

// Whether its values are paths.
bool IsPath(const CLI::Option& option);

}  // namespace lshformer::cli
