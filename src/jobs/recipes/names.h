// Which recipes there are, and which of them a word means: SOURCE/NAME, SOURCE for all of a source, "all".
#pragma once
#include <string>
#include <vector>

#include "jobs/recipes/recipe.h"

namespace lshformer {

inline constexpr const char* kAllRecipes = "all";

// SOURCE/NAME of every recipe in `folder`, in order.
std::vector<std::string> RecipeNames(const std::string& folder);
Recipe ReadNamedRecipe(const std::string& name, const std::string& folder);

struct FoundRecipes {
  std::vector<Recipe> recipes;
  std::string told;  // a line for whoever asked by another name; "": nothing to tell
};
// A file (*.json) of one's own, a name, an alias, a source, or "all". UsageError suggests the nearest.
FoundRecipes FindRecipes(const std::string& word, const std::string& folder);

}  // namespace lshformer
