#include "jobs/recipes/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// Of several recipes: inputs, steps and columns that they share.
constexpr const char* kParts = "parts";

std::vector<std::string> EntriesOf(const std::string& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path path = entry.path();
    if (folders ? entry.is_directory(error) && path.filename() != kParts : path.extension() == ".json")
      names.push_back(folders ? path.filename().string() : path.stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string SourceOfName(const std::string& name) { return name.substr(0, name.find('/')); }

// All that may be typed, for the nearest.
std::vector<std::string> AllWords(const std::vector<Recipe>& recipes) {
  std::vector<std::string> words{kAllRecipes};
  for (const Recipe& recipe : recipes) {
    const std::string source = SourceOfName(recipe.name);
    if (std::find(words.begin(), words.end(), source) == words.end()) words.push_back(source);
    words.push_back(recipe.name);
    for (const std::string& alias : recipe.aliases) words.push_back(source + "/" + alias);
  }
  return words;
}

// What a word that is no name is near to: a former name, the end of a name ("table-2"), letters.
std::string Meant(const std::string& word, const std::vector<Recipe>& recipes) {
  std::vector<std::string> ends;
  for (const Recipe& recipe : recipes) {
    if (recipe.former == word) return fmt::format(" (it is {} now)", recipe.name);
    if (recipe.name.ends_with("/" + word)) ends.push_back("\"" + recipe.name + "\"");
  }
  if (!ends.empty()) return fmt::format(" (did you mean {}?)", fmt::join(ends, " or "));
  return Suggestion(word, AllWords(recipes));
}

}  // namespace

std::vector<std::string> RecipeNames(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& source : EntriesOf(folder, /*folders=*/true))
    for (const std::string& name : EntriesOf(folder + "/" + source, /*folders=*/false))
      names.push_back(source + "/" + name);
  if (names.empty()) Fail("{}: no recipes; they are installed beside the program", Shown(folder, 160));
  return names;
}

Recipe ReadNamedRecipe(const std::string& name, const std::string& folder) {
  return ReadRecipe(fmt::format("{}/{}.json", folder, name), name, folder + "/" + kParts);
}

FoundRecipes FindRecipes(const std::string& word, const std::string& folder) {
  FoundRecipes found;
  if (word.ends_with(".json")) {
    const fs::path path(word);
    found.recipes.push_back(ReadRecipe(word, path.stem().string(), folder + "/" + kParts));
    return found;
  }
  std::vector<Recipe> recipes;
  for (const std::string& name : RecipeNames(folder)) recipes.push_back(ReadNamedRecipe(name, folder));
  for (Recipe& recipe : recipes) {
    const std::string source = SourceOfName(recipe.name);
    const bool alias = std::any_of(recipe.aliases.begin(), recipe.aliases.end(),
                                   [&](const std::string& other) { return word == source + "/" + other; });
    if (alias) found.told = fmt::format("{} is part of {}", word, recipe.name);
    if (word == kAllRecipes || word == source || word == recipe.name || alias) found.recipes.push_back(recipe);
  }
  if (found.recipes.empty())
    FailUsage("no recipe \"{}\"{}; {} shows those of the program, and a file of one's own ends in .json", Shown(word),
              Meant(word, recipes), OptionName{"list"});
  return found;
}

}  // namespace lshformer
