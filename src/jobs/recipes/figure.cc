#include "jobs/recipes/figure.h"

#include "base/error.h"
#include "jobs/recipes/reading.h"

namespace lshformer {
namespace {

using Kind = RecipeFigure::Kind;

// {"their model": [[500, 8.284], …]}
std::map<std::string, std::vector<std::pair<double, double>>> ParsePoints(const Json& object,
                                                                          const std::string& where) {
  std::map<std::string, std::vector<std::pair<double, double>>> lines;
  for (const auto& [name, points] : object.items()) {
    if (!points.is_array()) Fail("{}: \"{}\": expected a list of points, got {}", where, name, ShownValue(points));
    for (const Json& point : points) {
      if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number())
        Fail("{}: \"{}\": expected points [x, y], got {}", where, name, ShownValue(point));
      lines[name].emplace_back(point[0].get<double>(), point[1].get<double>());
    }
  }
  return lines;
}

}  // namespace

RecipeFigure ParseFigure(const Json& json, const std::string& where) {
  RefuseOtherKeys(json,
                  {"kind",    "title",     "caption",   "rows",         "columns",      "x",          "y",
                   "x_label", "y_label",   "unit",      "series",       "series_names", "where",      "times",
                   "log",     "from_zero", "row_label", "column_label", "limit",        "limit_name", "published"},
                  where);
  RecipeFigure figure;
  RequireMember(json, "kind", where);
  figure.kind = static_cast<Kind>(PlaceOf({"heat_map", "bars", "radar", "points", "curves", "lines"},
                                          GetString(json, "kind", where), "kind", where));
  RequireMember(json, "title", where);
  figure.title = GetString(json, "title", where);
  figure.caption = OptionalText(json, "caption", where, "");
  figure.rows = OptionalTexts(json, "rows", where);
  figure.columns = OptionalTexts(json, "columns", where);
  figure.x = OptionalText(json, "x", where, figure.kind == Kind::kCurves ? "step" : "length");
  figure.y = OptionalText(json, "y", where, "");
  if (figure.y.empty() && (figure.kind == Kind::kPoints || figure.kind == Kind::kCurves || figure.kind == Kind::kLines))
    Fail("{}: \"y\" is missing", where);
  figure.x_label = OptionalText(json, "x_label", where, figure.x);
  figure.y_label = OptionalText(json, "y_label", where, figure.y);
  figure.unit = OptionalText(json, "unit", where, "");
  figure.series = OptionalText(json, "series", where, "name");
  figure.series_names = OptionalObject(json, "series_names", where);
  figure.where = OptionalObject(json, "where", where);
  figure.times = OptionalNumber(json, "times", where, 1);
  const std::string log = OptionalText(json, "log", where, "");
  if (!log.empty()) PlaceOf({"x", "y", "xy"}, log, "log", where);
  figure.log_x = log.find('x') != std::string::npos;
  figure.log_y = log.find('y') != std::string::npos;
  figure.from_zero = GetBoolOr(json, "from_zero", where, false);
  figure.row_label = OptionalText(json, "row_label", where, "row");
  figure.column_label = OptionalText(json, "column_label", where, "column");
  figure.limit_name = OptionalText(json, "limit_name", where, "");
  if (json.contains("limit")) figure.limit = GetNumber(json, "limit", where);
  figure.published = ParsePoints(OptionalObject(json, "published", where), where + ": \"published\"");
  return figure;
}

}  // namespace lshformer
