// What recipes leave for readers: results as JSON, Markdown, a page, and figures as files of their own.
#pragma once
#include <string>
#include <vector>

#include "jobs/recipes/results.h"
#include "report/drawing.h"

namespace lshformer {

// A recipe with all that was found.
struct ReproducedRecipe {
  Recipe recipe;
  PlannedCells cells;
  RecipeResults results;
  std::vector<Illustration> illustrations;
};
ReproducedRecipe Reproduced(const Recipe& recipe, const PlannedCells& cells, const RecipePlan& plan,
                            const ReproduceOptions& options);

inline constexpr const char* kReportFile = "report.html";

// OUTPUT/NAME/results.json, report.md, report.html and figure-N.svg.
void WriteRecipe(const ReproducedRecipe& reproduced, const RecipePlan& plan, const ReproduceOptions& options);
// OUTPUT/report.html and report.md: every claim with its verdict, then a chapter a recipe.
void WriteReport(const std::vector<ReproducedRecipe>& all, const RecipePlan& plan, const ReproduceOptions& options);

// OptionError where a page of somebody else's stands where one is to be written.
void CheckPages(const std::vector<Recipe>& recipes, const ReproduceOptions& options);

// For a terminal: title, source, table, claims, what is known of the published figures, notes.
std::string TerminalText(const ReproducedRecipe& reproduced, const ReproduceOptions& options);

}  // namespace lshformer
