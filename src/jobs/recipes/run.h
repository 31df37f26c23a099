// Running a plan of recipes.
#pragma once
#include <functional>
#include <string>

#include "jobs/recipes/plan.h"

namespace lshformer {

// Whether the run is finished: its entry says so, with these flags; what it made is there, and not older than what it
// was made of. Errors as of ReadEntry.
bool IsFinished(const RecipePlan& plan, const RecipeRun& run, const ReproduceOptions& options);

// Error for the first entry of the plan's runs that cannot be used: before hours of others, not after.
void CheckEntries(const RecipePlan& plan, const ReproduceOptions& options);

// Runs what is not finished, each as a process of this program with its flags in OUTPUT/runs/KEY.flags.json and its
// standard output in OUTPUT/runs/KEY.log. A training run that was stopped goes on; of others what they left half done
// is deleted. `begins` is told of each that is started. Error where a run fails: its own words, with its name and log;
// Interrupted after a signal, when the run in progress has saved its state.
void RunPlan(const RecipePlan& plan, const ReproduceOptions& options, const std::string& commit,
             const std::function<void(const RecipeRun& run)>& begins = {});

}  // namespace lshformer
