// What recipes run: commands with all flags, each once however many recipes and cells ask for it.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jobs/recipes/recipe.h"

namespace lshformer {

struct ReproduceOptions {
  Form form = Form::kFull;
  std::string data_dir;                       // of the full form: a folder as docs/recipes.md has it
  std::map<std::string, std::string> inputs;  // in place of the recipe's own: paths, numbers
  std::string output_dir;
  std::vector<std::string> rows, columns;  // these only; empty: all
  std::vector<std::string> common_flags;   // handed to every command: "--threads", "2"
};
bool Chosen(const std::vector<std::string>& names, const std::string& name);  // among them; of none: true

// A command that recipes run, with all flags. What it leaves is OUTPUT/runs/KEY/, or, of one that prints its results,
// OUTPUT/runs/KEY.log. The key is the command's name and a digest of its flags, so that equal commands are one run.
struct RecipeRun {
  std::string key;
  std::string name;  // of the first that asked: "bert-lsh/table-2 exact/pretraining"
  std::string command;
  Json flags;                      // with those of the output; a name in capitals is a positional argument
  std::vector<std::string> needs;  // keys of the runs that it reads
  std::string result;              // the folder or file that it makes, for those that read it
  bool is_step = false;            // of no row: several may need it
  std::vector<std::string> CommandWords() const;  // "tokenizer train" is two
  std::vector<std::string> Positionals() const;
  Json Flags() const;  // without these
};

struct RecipePlan {
  std::vector<RecipeRun> runs;  // in order: what a run needs stands before it
  std::map<std::string, size_t> places;
  const RecipeRun& run(const std::string& key) const { return runs[places.at(key)]; }
};

// Of one recipe's table: (row, column) → key of the run that the figure is of. Published cells, and those that were
// not asked for, are not there.
using PlannedCells = std::map<std::pair<std::string, std::string>, std::string>;

// What a recipe needs and has not got.
struct Missing {
  std::string name;   // in a list of several
  std::string error;  // alone
};
// UsageError that names all of it; nothing where nothing is missing.
void Refuse(const std::vector<Missing>& missing);

// What a path of the user's is for: an input's value and what it is, for the error where it is not there.
struct DataPath {
  std::string path, what;
};

// Adds what the recipe runs, in order: row by row, before each what it needs. UsageError for rows and columns that the
// recipe has not. Inputs that one of these runs needs and that were not given, and folders of files that are none, go
// into `missing` (then the plan is not to be used); values of inputs that are paths into `data`.
PlannedCells PlanRecipe(const Recipe& recipe, const ReproduceOptions& options, RecipePlan& plan,
                        std::vector<Missing>& missing, std::vector<DataPath>& data);
// UsageError for an input given that none of the recipes has.
void CheckInputs(const std::vector<Recipe>& recipes, const ReproduceOptions& options);

// The folder of the file that a command writes, which it does not make; "": it writes none.
std::string FolderOfFile(const RecipeRun& run);

// As it would be typed.
std::string CommandLine(const RecipeRun& run);
// The same with its end of line, behind a line that makes FolderOfFile.
std::string TypedLines(const RecipeRun& run);

std::string RunsFolder(const ReproduceOptions& options);  // OUTPUT/runs

}  // namespace lshformer
