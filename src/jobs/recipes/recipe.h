// Recipes: published tables and figures as JSON files (recipes/SOURCE/NAME.json), each saying which commands make a
// table, what was published, what of that is claimed, and how it is drawn. docs/formats.md has their keys.
//
// A recipe's table has rows (models, settings) and columns (figures). Every cell is a figure of a command of this
// program with the flags of the recipe, its column and its row. In texts of flags the names of inputs, steps and
// columns stand for themselves in braces: an input for its value, a step or a column for the folder or file that its
// command makes (a column: in the same row; ROW.COLUMN: in another one), {row} for the row's name. A text that is one
// such name alone takes the value's own type. A text that ends in "/*" stands for the files of that folder, in order of
// their names.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "jobs/recipes/claim.h"
#include "jobs/recipes/figure.h"

namespace lshformer {

// Small and on data that the program makes itself, to see that all of it runs; or as the source has it, on the user's.
enum class Form { kQuick, kFull };
const char* Name(Form form);  // "quick", "full"

struct RecipeInput {
  std::string name, what;
  Json quick, full;  // its value in each form; null: the user's to give
  const Json& value(Form form) const { return form == Form::kQuick ? quick : full; }
};

struct RecipeStep {
  std::string name;
  std::string command;  // one of RecipeCommands()
  Json flags;           // an object: names of flags without dashes → values
  Json quick;           // laid over them in the quick form
};

struct RecipeColumn {
  std::string name, title;
  std::string command;  // "": a figure of the command of column `of`
  std::string of;       // "" too: one that rows quote, and nothing measures
  Json flags;
  Json quick;  // laid over them in the quick form
  bool in_quick_form = true;
  // In the command's results: "eval_accuracy", or "parameters/embeddings" in an object of them. Of several the sum,
  // those with "-" in front taken away.
  std::vector<std::string> metric;
  std::string list;             // of results that have rows (timings): where they stand
  Json where = Json::object();  // and which row it is: values by the keys of rows
  double times = 1;             // the figure is shown so many times as large: 100 for per cent
  int digits = 4;               // significant ones
  int better = 0;               // 1: higher figures, −1: lower ones; 0: neither
};

struct RecipeRow {
  std::string name, title;
  Json flags;                               // for all columns
  Json where = Json::object();              // beside the column's
  std::map<std::string, Json> of_columns;   // column → flags for it, or null: the row has no such cell
  bool is_published = false;                // such a row runs nothing
  std::map<std::string, double> published;  // of such a row: column → the figure as printed
  std::map<std::string, double> printed;    // the same of a row that runs: figures that it stands beside; or
  std::string against;                      // the published row with all of them; "": none
  std::vector<Form> forms;                  // in which it is run
};

struct Recipe {
  std::string name;                  // "bert-lsh/table-2"; of a file of one's own its name
  std::vector<std::string> aliases;  // further names, of other tables and figures that this one is too: "fig-2"
  std::string former;                // what it was called before; "": nothing
  std::string title, source;
  std::map<Form, double> minutes;    // that it takes on two cores, about; of a form that is not there not said
  std::vector<std::string> defects;  // of the published figures, as far as they are known
  std::vector<std::string> notes;
  std::vector<RecipeInput> inputs;
  Json flags = Json::object();  // of every command of the table
  std::vector<RecipeStep> steps;
  std::vector<RecipeColumn> columns;
  std::vector<RecipeRow> rows;
  std::vector<Claim> claims;
  std::vector<RecipeFigure> figures;
};

// What recipes are made of.
const std::vector<std::string>& RecipeCommands();

// Error names the file, and the key at fault. Parts that it names are files of `parts_folder`.
Recipe ReadRecipe(const std::string& path, const std::string& name, const std::string& parts_folder);
Recipe ParseRecipe(const Json& json, const std::string& where, const std::string& parts_folder = "");

const RecipeRow* FindRow(const Recipe& recipe, const std::string& name);
const RecipeColumn* FindColumn(const Recipe& recipe, const std::string& name);
// The column whose command makes a column's figure.
const std::string& SourceOf(const RecipeColumn& column);
// The published figure that a row's own stands beside, or that it is itself; NaN: none.
double PublishedFigure(const Recipe& recipe, const RecipeRow& row, const RecipeColumn& column);
// Whether the row runs something for the column.
bool HasCell(const Recipe& recipe, const RecipeRow& row, const RecipeColumn& column, Form form);
inline bool IsQuoted(const RecipeColumn& column) { return column.command.empty() && column.of.empty(); }

}  // namespace lshformer
