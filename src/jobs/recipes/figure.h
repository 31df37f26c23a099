// How a recipe's figures are drawn: what a file of a recipe says of them. Drawing: jobs/recipes/illustrations.h.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace lshformer {

struct RecipeFigure {
  enum class Kind {
    kHeatMap,  // a cell a row and column of the table
    kBars,     // a group of bars a column, a bar a row
    kRadar,    // an axis a column, a shape a row
    kPoints,   // a line: a column by another one, a point a row
    kCurves,   // the course of a column's runs: a logged figure by the step, a line a row
    kLines     // rows inside a column's results: timings by length, a line a name
  };
  Kind kind = Kind::kBars;
  std::string title, caption;
  std::vector<std::string> rows, columns;    // of the table; empty: all
  std::string x, y, x_label, y_label, unit;  // points: columns; curves, lines: keys
  std::string series = "name";               // lines: the key that tells them apart
  Json series_names = Json::object();        // lines: titles by that key's values
  Json where = Json::object();               // lines: as in a column
  double times = 1;                          // curves, lines: of y
  bool log_x = false, log_y = false, from_zero = false;
  std::string row_label, column_label;  // heat map
  std::string limit_name;               // of `limit`: a frame round cells up to it, or a level across a chart
  std::optional<double> limit;
  std::map<std::string, std::vector<std::pair<double, double>>> published;  // curves: name → as printed
};

// Error names `where` and the key at fault.
RecipeFigure ParseFigure(const Json& json, const std::string& where);

}  // namespace lshformer
