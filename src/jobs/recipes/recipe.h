// Recipes: published tables and figures as JSON files (recipes/), each saying which commands make a table and what was
// published. docs/formats.md has their keys.
//
// A recipe's table has rows (models, settings) and columns (figures). Every cell is a command of this program with the
// flags of the recipe, its column and its row, or a figure that another column's command left. In texts of flags
// {output}, {row} and the names of the recipe's inputs stand for themselves in braces, an input that is a number, alone
// in its braces, for that number; a text that ends in "/*" stands for the files of that folder, in order of their
// names.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/table.h"

namespace lshformer {

// Set for the commands of a recipe: the number of an open file for the line that says why one failed, in place of
// stderr, where the program that waits for it says the same.
inline constexpr const char* kErrorDescriptorVariable = "LSHFORMER_ERROR_DESCRIPTOR";

struct RecipeStep {
  std::string name;     // of its folder below the output folder
  std::string command;  // pretrain, train, evaluate or "tokenizer train"
  Json flags;           // an object: names of flags without dashes → values
};

struct RecipeColumn {
  std::string name, title;
  std::string command;  // "": a figure of the command of column `of`
  std::string of;
  Json flags;
  std::string metric;  // in the command's results: "eval_accuracy"
  double times = 1;    // the figure is shown so many times as large: 100 for per cent
};

struct RecipeRow {
  std::string name, title;
  Json flags;                               // for all columns
  std::map<std::string, Json> of_columns;   // column → flags for it, or null: the row has no such cell
  bool is_published = false;                // such a row runs nothing
  std::map<std::string, double> published;  // column → the figure as printed
};

struct Recipe {
  std::string name, title, source;
  std::string hours;  // that all of it takes, in words; "": not said
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, std::string>> inputs;  // name → what it is
  Json flags = Json::object();                              // of every command of the table
  std::vector<RecipeStep> steps;                            // before the table, in order
  std::vector<RecipeColumn> columns;
  std::vector<RecipeRow> rows;
};

// Names of the recipes in a folder, in order.
std::vector<std::string> RecipeNames(const std::string& folder);
// A file; else the recipe of that name in `folder`. Error names the file, and the key at fault.
Recipe ReadRecipe(const std::string& name_or_file, const std::string& folder);
Recipe ParseRecipe(const Json& json, const std::string& where);

struct ReproduceOptions {
  std::map<std::string, std::string> inputs;  // the recipe's: paths, numbers
  std::string output_dir;
  std::vector<std::string> rows, columns;  // these only; empty: all
  std::vector<std::string> common_flags;   // handed to every command: "--threads", "2"
};

// A command that a recipe runs, with all flags.
struct RecipeRun {
  std::string name;  // "ROW/COLUMN", or a step's
  std::string command;
  Json flags;                                     // with output_dir
  std::vector<std::string> CommandWords() const;  // "tokenizer train" is two
};

// What a recipe needs and has not got.
struct Missing {
  std::string name;   // in a list of several
  std::string error;  // alone
};

// What is to be run, in order: steps, then row by row. UsageError for inputs, rows and columns that the recipe has not.
// Inputs that one of these runs needs and that were not given, and folders of files that are none, go into `missing`
// (then the runs are not to be used), or are an error where that is null.
std::vector<RecipeRun> PlanRecipe(const Recipe& recipe, const ReproduceOptions& options,
                                  std::vector<Missing>* missing = nullptr);
// UsageError that names all of it; nothing where nothing is missing.
void Refuse(const std::vector<Missing>& missing);
// As it would be typed.
std::string CommandLine(const RecipeRun& run);

// Runs what is not finished, each as a process of this program with its flags in OUTPUT/NAME.flags.json and its
// standard output in OUTPUT/NAME.log. A run that was stopped goes on. Error where a run fails: its own words, with its
// name and log;
// Interrupted after a signal, when the run in progress has saved its state.
void RunRecipe(const std::vector<RecipeRun>& runs, const ReproduceOptions& options);

// Ours beside what was published, whose rows are always there. "–": not run (yet), or not published. Several seeds:
// mean ± standard deviation.
Table RecipeTable(const Recipe& recipe, const ReproduceOptions& options);
// A line for each column whose metric none of its finished runs has.
std::vector<std::string> UnknownMetrics(const Recipe& recipe, const ReproduceOptions& options);
// The same table as one HTML page, with source, notes and commands.
std::string RecipePage(const Recipe& recipe, const ReproduceOptions& options);

}  // namespace lshformer
