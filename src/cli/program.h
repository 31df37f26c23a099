// The command line as a whole: common flags, all commands, help.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"

namespace lshformer::cli {

// Declares the program. Parsing runs the chosen command, after the common flags took effect (threads, logs, progress,
// ISA).
std::unique_ptr<CLI::App> MakeProgram(CommonFlags& common);

// Runs the command line and ends the process with its exit status; failures are one line on stderr.
[[noreturn]] void RunProgram(int argc, char** argv);

}  // namespace lshformer::cli
