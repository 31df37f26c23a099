// A recipe's results as tables, for the terminal and for pages.
#pragma once
#include "jobs/recipes/results.h"
#include "report/table.h"

namespace lshformer {

// Ours beside what was published, whose rows are always there: their ratio below a row that stands beside a published
// one, beside a figure that stands beside a printed one. "–": not run (yet), or not published. Several seeds: mean ±
// standard deviation.
Table RecipeTable(const Recipe& recipe, const RecipeResults& results, const ReproduceOptions& options);

// Claim, what was published, what was measured, verdict and rule. No lines where the recipe claims nothing.
Table ClaimTable(const Recipe& recipe, const RecipeResults& results);

// "7 claims: 4 hold, 1 holds in direction, 2 do not hold"; "" where there are none.
std::string VerdictCounts(const std::vector<Verdict>& verdicts);

// Every number's way back: the cell, its value in full, the key of results, their file, and the run.
Table TraceTable(const Recipe& recipe, const RecipeResults& results);
// The runs: key, program, machine, when.
Table RunTable(const RecipeResults& results);

}  // namespace lshformer
