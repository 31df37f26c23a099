// A recipe's figures, drawn from its results.
#pragma once
#include <vector>

#include "jobs/recipes/results.h"
#include "report/drawing.h"

namespace lshformer {

// In the order of the recipe, each with the command of the first run that it shows. Those of which nothing was run yet
// are left out.
std::vector<Illustration> Illustrate(const Recipe& recipe, const RecipeResults& results, const PlannedCells& cells,
                                     const RecipePlan& plan, const ReproduceOptions& options);

}  // namespace lshformer
