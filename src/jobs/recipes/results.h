// What a recipe's runs have found: figures of the table's cells with where they stand, and verdicts on its claims.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "jobs/recipes/claim.h"
#include "jobs/recipes/entry.h"
#include "jobs/recipes/plan.h"
#include "jobs/recipes/recipe.h"

namespace lshformer {

struct CellResult {
  CellFigure figure;
  std::string run;   // its key
  std::string file;  // of results, that the figure stands in; "": the run is not finished
};

struct RecipeResults {
  std::map<std::pair<std::string, std::string>, CellResult> cells;  // by row and column
  std::vector<Verdict> verdicts;                                    // of the recipe's claims, in their order
  std::map<std::string, RunEntry> entries;                          // of the runs of the cells, by key
  std::vector<std::string> unknown;  // a line for each column whose metric none of its finished runs has
};

// The results that a finished run has left: files with what stands in them. Error names a file that cannot be read.
std::vector<std::pair<std::string, Json>> ReadRunResults(const RecipeRun& run, const ReproduceOptions& options);

// Of the rows in a list of such results those that have the values of `where`, whose keys may be paths: "spec/bands".
std::vector<Json> RowsWhere(const Json& results, const std::string& list, const Json& where);
// The values that a row must have, with inputs in place of their names in braces.
Json WithInputs(const Recipe& recipe, Json where, const ReproduceOptions& options);
// What stands at a path of keys: "a/b"; null where nothing does.
Json ValueAt(const Json& object, const std::string& path);

RecipeResults ReadResults(const Recipe& recipe, const PlannedCells& cells, const RecipePlan& plan,
                          const ReproduceOptions& options);

// {"recipe", "title", "source", "form", "lshformer", "cells": [{"row", "column", "value", "deviation", "published",
// "ratio", "file", "metric", "run"}], "claims": [{"claim", "published", "measured", "rule", "verdict", "kind"}],
// "runs": {KEY: {"command", "lshformer", "machine", "started_at", "finished_at"}}}
Json ToJson(const Recipe& recipe, const RecipeResults& results, const RecipePlan& plan,
            const ReproduceOptions& options);

}  // namespace lshformer
