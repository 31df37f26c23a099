#include "jobs/recipes/illustrations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "report/runs.h"

namespace lshformer {
namespace {

using Kind = RecipeFigure::Kind;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Illustrator {
 public:
  Illustrator(const Recipe& recipe, const RecipeResults& results, const PlannedCells& cells, const RecipePlan& plan,
              const ReproduceOptions& options)
      : recipe_(recipe), results_(results), cells_(cells), plan_(plan), options_(options) {}

  // Nothing where none of its figures was measured.
  std::vector<Illustration> Draw(const RecipeFigure& figure) {
    command_.clear();
    Drawing drawing = DrawingOf(figure);
    if (command_.empty() && !ShowsPublishedAlone(figure)) return {};
    return {Illustration{std::move(drawing), figure.caption, command_}};
  }

 private:
  Drawing DrawingOf(const RecipeFigure& figure) {
    switch (figure.kind) {
      case Kind::kHeatMap:
        return HeatMapOf(figure);
      case Kind::kBars:
        return BarsOf(figure);
      case Kind::kRadar:
        return RadarOf(figure);
      case Kind::kPoints:
        return PointsOf(figure);
      case Kind::kCurves:
        return CurvesOf(figure);
      case Kind::kLines:
        return LinesOf(figure);
    }
    return {};
  }

  std::vector<const RecipeRow*> RowsOf(const RecipeFigure& figure) const {
    std::vector<const RecipeRow*> rows;
    for (const RecipeRow& row : recipe_.rows)
      if (Chosen(figure.rows, row.name)) rows.push_back(&row);
    return rows;
  }
  std::vector<const RecipeColumn*> ColumnsOf(const RecipeFigure& figure) const {
    std::vector<const RecipeColumn*> columns;
    for (const RecipeColumn& column : recipe_.columns)
      if (Chosen(figure.columns, column.name)) columns.push_back(&column);
    return columns;
  }

  bool ShowsPublishedAlone(const RecipeFigure& figure) const {
    return !figure.rows.empty() && std::all_of(figure.rows.begin(), figure.rows.end(), [&](const std::string& name) {
      return FindRow(recipe_, name)->is_published;
    });
  }

  // A row of ours and the published one that it stands beside are drawn alike, in all figures.
  int StyleOf(const RecipeRow& row) const {
    int style = 0;
    for (const RecipeRow& other : recipe_.rows) {
      if (other.is_published) continue;
      if (other.name == row.name || (row.is_published && other.against == row.name)) return style;
      ++style;
    }
    return style;
  }
  // Of curves that are quoted by name, "exact, published": that of the row whose title begins it.
  int StyleOf(const std::string& quoted) const {
    for (const RecipeRow& row : recipe_.rows)
      if (!row.is_published && quoted.starts_with(row.title)) return StyleOf(row);
    return -1;
  }

  void Show(const std::string& key) {
    if (command_.empty()) command_ = CommandLine(plan_.run(key));
  }

  // As measured, or of a published row as printed.
  double ValueOf(const RecipeRow& row, const RecipeColumn& column) {
    if (row.is_published || IsQuoted(column)) return PublishedFigure(recipe_, row, column);
    const auto found = results_.cells.find({row.name, column.name});
    if (found == results_.cells.end() || !std::isfinite(found->second.figure.value)) return kNone;
    Show(found->second.run);
    return found->second.figure.value;
  }

  HeatMap HeatMapOf(const RecipeFigure& figure) {
    HeatMap map;
    map.title = figure.title, map.row_label = figure.row_label, map.column_label = figure.column_label;
    for (const RecipeColumn* column : ColumnsOf(figure)) map.columns.push_back(column->title);
    for (const RecipeRow* row : RowsOf(figure)) {
      if (row->is_published && figure.rows.empty()) continue;
      map.rows.push_back(row->title);
      map.values.emplace_back();
      for (const RecipeColumn* column : ColumnsOf(figure)) map.values.back().push_back(ValueOf(*row, *column));
    }
    map.log = figure.log_y;
    if (figure.limit) map.limit = *figure.limit, map.limit_name = figure.limit_name;
    return map;
  }

  BarChart BarsOf(const RecipeFigure& figure) {
    BarChart chart;
    chart.title = figure.title, chart.unit = figure.unit;
    for (const RecipeColumn* column : ColumnsOf(figure)) chart.groups.push_back(column->title);
    for (const RecipeRow* row : RowsOf(figure)) {
      BarChart::Bars bars;
      bars.name = row->title, bars.published = row->is_published, bars.style = StyleOf(*row);
      for (const RecipeColumn* column : ColumnsOf(figure)) bars.values.push_back(ValueOf(*row, *column));
      if (std::any_of(bars.values.begin(), bars.values.end(), [](double value) { return std::isfinite(value); }))
        chart.series.push_back(std::move(bars));
    }
    return chart;
  }

  RadarChart RadarOf(const RecipeFigure& figure) {
    RadarChart chart;
    chart.title = figure.title;
    for (const RecipeColumn* column : ColumnsOf(figure)) chart.axes.push_back({column->title, column->better});
    for (const RecipeRow* row : RowsOf(figure)) {
      RadarShape shape;
      shape.name = row->title, shape.published = row->is_published, shape.style = StyleOf(*row);
      for (const RecipeColumn* column : ColumnsOf(figure)) shape.values.push_back(ValueOf(*row, *column));
      if (std::any_of(shape.values.begin(), shape.values.end(), [](double value) { return std::isfinite(value); }))
        chart.shapes.push_back(std::move(shape));
    }
    return chart;
  }

  static LineChart ChartOf(const RecipeFigure& figure) {
    LineChart chart;
    chart.title = figure.title;
    chart.x.label = figure.x_label, chart.x.log = figure.log_x;
    chart.y.label = figure.y_label, chart.y.log = figure.log_y, chart.y.from_zero = figure.from_zero;
    if (figure.limit) chart.levels.push_back({figure.limit_name, *figure.limit});
    return chart;
  }

  LineChart PointsOf(const RecipeFigure& figure) {
    LineChart chart = ChartOf(figure);
    for (const RecipeRow* row : RowsOf(figure)) {
      const double x = ValueOf(*row, *FindColumn(recipe_, figure.x)), y = ValueOf(*row, *FindColumn(recipe_, figure.y));
      if (std::isfinite(x) && std::isfinite(y)) chart.series.push_back({row->title, {{x, y}}, StyleOf(*row)});
    }
    return chart;
  }

  // Key of the finished run of a row's cell in the figure's first column; "": there is none.
  std::string RunOf(const RecipeRow& row, const RecipeFigure& figure) const {
    const auto found = cells_.find({row.name, ColumnsOf(figure).front()->name});
    if (found == cells_.end()) return "";
    const auto entry = results_.entries.find(found->second);
    return entry != results_.entries.end() && entry->second.finished ? found->second : "";
  }

  LineChart CurvesOf(const RecipeFigure& figure) {
    LineChart chart = ChartOf(figure);
    for (const RecipeRow* row : RowsOf(figure)) {
      const std::string key = RunOf(*row, figure);
      if (key.empty()) continue;
      for (const RunRecord& record : ReadRuns({plan_.run(key).result})) {
        for (const auto& [name, curve] : record.curves) {
          if (name != figure.y) continue;
          Series series{row->title, {}, StyleOf(*row)};
          for (const auto& [step, value] : curve) series.points.emplace_back(step, value * figure.times);
          chart.series.push_back(std::move(series));
          Show(key);
        }
        break;  // of several seeds the first one
      }
    }
    for (const auto& [name, points] : figure.published)
      chart.series.push_back({name, points, StyleOf(name), /*published=*/true});
    return chart;
  }

  LineChart LinesOf(const RecipeFigure& figure) {
    LineChart chart = ChartOf(figure);
    std::set<std::string> seen;
    for (const RecipeRow* row : RowsOf(figure)) {
      const std::string key = RunOf(*row, figure);
      if (key.empty() || !seen.insert(key).second) continue;
      for (const auto& [file, results] : ReadRunResults(plan_.run(key), options_))
        AddLines(figure,
                 RowsWhere(results, ColumnsOf(figure).front()->list, WithInputs(recipe_, figure.where, options_)),
                 chart);
      Show(key);
    }
    return chart;
  }

  static void AddLines(const RecipeFigure& figure, const std::vector<Json>& rows, LineChart& chart) {
    for (const Json& row : rows) {
      const Json x = ValueAt(row, figure.x), y = ValueAt(row, figure.y), name = ValueAt(row, figure.series);
      if (!x.is_number() || !y.is_number()) continue;
      std::string text = name.is_string() ? name.get<std::string>() : name.dump();
      text = figure.series_names.value(text, text);
      auto line = std::find_if(chart.series.begin(), chart.series.end(), [&](auto& s) { return s.name == text; });
      if (line == chart.series.end()) line = chart.series.insert(chart.series.end(), Series{text, {}});
      line->points.emplace_back(x.get<double>(), y.get<double>() * figure.times);
    }
  }

  const Recipe& recipe_;
  const RecipeResults& results_;
  const PlannedCells& cells_;
  const RecipePlan& plan_;
  const ReproduceOptions& options_;
  std::string command_;  // of the first run that the drawing in hand shows
};

}  // namespace

std::vector<Illustration> Illustrate(const Recipe& recipe, const RecipeResults& results, const PlannedCells& cells,
                                     const RecipePlan& plan, const ReproduceOptions& options) {
  std::vector<Illustration> illustrations;
  Illustrator illustrator(recipe, results, cells, plan, options);
  for (const RecipeFigure& figure : recipe.figures)
    for (Illustration& drawn : illustrator.Draw(figure)) illustrations.push_back(std::move(drawn));
  return illustrations;
}

}  // namespace lshformer
