// lshformer bench dist.
#pragma once
#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace lshformer::cli {

void AddBenchDist(CLI::App& bench, CommonFlags& common);

}  // namespace lshformer::cli
