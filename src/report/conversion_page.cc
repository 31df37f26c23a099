#include "report/conversion_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/metric_direction.h"
#include "report/json_figures.h"
#include "report/page.h"

namespace lshformer {
namespace {

double FigureOf(const Json& object, const char* key) {
  const double value = NumberOr(object, key);
  return std::isfinite(value) ? value : std::nan("");
}

// The members of a list; none where there is no list.
const Json& ListOf(const Json& object, const char* key) {
  static const Json none = Json::array();
  return HasValue(object, key) && object[key].is_array() ? object[key] : none;
}

// With more digits the nearer it is to 1.
std::string CosineText(double cosine) {
  const double loss = 1 - cosine;
  if (!(loss > 0 && loss < 1)) return FormatNumber(cosine, 4);
  return fmt::format("{:.{}f}", cosine, std::clamp(static_cast<int>(std::ceil(-std::log10(loss))) + 1, 4, 9));
}

// " ± 0.0003"; nothing where it is unknown.
std::string SpreadText(double spread) { return std::isfinite(spread) ? fmt::format(" ± {:.1g}", spread) : ""; }

struct ConvertedHead {
  int64_t layer = 0, head = 0;
  std::string setting;  // "": unknown
  double pairs = 0, recall = 0, error = 0;
};

int64_t NumberIn(const Json& object, const char* key, size_t absent) {
  return HasValue(object, key) && object[key].is_number_integer() ? object[key].get<int64_t>()
                                                                  : static_cast<int64_t>(absent);
}

std::vector<ConvertedHead> HeadsOf(const Json& report) {
  std::vector<ConvertedHead> heads;
  const Json& layers = ListOf(report, "layers");
  for (size_t i = 0; i < layers.size(); ++i) {
    const Json& in_layer = ListOf(layers[i], "heads");
    for (size_t j = 0; j < in_layer.size(); ++j) {
      const Json& head = in_layer[j];
      heads.push_back({NumberIn(layers[i], "layer", i), NumberIn(head, "head", j), TextOr(head, "setting"),
                       FigureOf(head, "pairs_fraction"), FigureOf(head, "mass_recall"), FigureOf(head, "error")});
    }
  }
  return heads;
}

// Names of settings, the cheapest first.
std::vector<std::string> SettingsOf(const std::vector<ConvertedHead>& heads) {
  std::map<std::string, std::pair<double, int>> pairs;  // sum and number
  for (const ConvertedHead& head : heads) {
    if (head.setting.empty()) continue;
    auto& [sum, number] = pairs[head.setting];
    if (!std::isnan(head.pairs)) {
      sum += head.pairs;
      ++number;
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, mean] : pairs) names.push_back(name);
  const auto cost = [&](const std::string& name) {
    const auto& [sum, number] = pairs[name];
    return number == 0 ? HUGE_VAL : sum / number;
  };
  std::stable_sort(names.begin(), names.end(), [&](auto& a, auto& b) { return cost(a) < cost(b); });
  return names;
}

// At most five characters: "2e-3".
std::string ErrorText(double error) {
  if (std::isnan(error) || error == 0) return FormatNumber(error);
  std::string text = fmt::format("{:.0e}", error);
  const size_t exponent = text.find('e') + 2;
  if (exponent < text.size() && text[exponent] == '0') text.erase(exponent, 1);
  return text;
}

std::string RecallText(double recall) {
  return std::isnan(recall) || recall == 1 ? FormatNumber(recall) : fmt::format("{:.2f}", recall);
}

// A map of layers by heads without values.
class HeadGrid {
 public:
  explicit HeadGrid(const std::vector<ConvertedHead>& heads) : heads_(heads) {
    for (const ConvertedHead& head : heads) {
      layers_[head.layer];
      columns_[head.head];
    }
    for (auto* places : {&layers_, &columns_}) {
      size_t next = 0;
      for (auto& [name, place] : *places) place = next++;
    }
  }

  template <class Value, class Text, class Tip>
  HeatMap Map(const std::string& title, const Value& value, const Text& text, const Tip& tip) const {
    HeatMap map{.title = title, .row_label = "layer", .column_label = "head", .rows = {}, .columns = {}, .values = {}};
    for (const auto& [layer, place] : layers_) map.rows.push_back(std::to_string(layer));
    for (const auto& [head, place] : columns_) map.columns.push_back(std::to_string(head));
    map.values.assign(map.rows.size(), std::vector<double>(map.columns.size(), std::nan("")));
    map.cells.assign(map.rows.size(), std::vector<std::string>(map.columns.size()));
    map.tips = map.cells;
    for (const ConvertedHead& head : heads_) {
      const size_t row = layers_.at(head.layer), column = columns_.at(head.head);
      map.values[row][column] = value(head);
      map.cells[row][column] = text(head);
      map.tips[row][column] = tip(head);
    }
    return map;
  }

 private:
  const std::vector<ConvertedHead>& heads_;
  std::map<int64_t, size_t> layers_, columns_;
};

std::vector<HeatMap> HeadMaps(const std::vector<ConvertedHead>& heads) {
  std::vector<HeatMap> maps;
  const HeadGrid grid(heads);
  const std::vector<std::string> settings = SettingsOf(heads);
  if (!settings.empty()) {
    maps.push_back(grid.Map(
        "Setting of each head",
        [&](const ConvertedHead& head) {
          const auto found = std::find(settings.begin(), settings.end(), head.setting);
          return found == settings.end() ? std::nan("") : static_cast<double>(found - settings.begin());
        },
        [](const ConvertedHead&) { return ""; },
        [](const ConvertedHead& head) {
          return head.setting.empty() ? "" : fmt::format("{}, {} of pairs", head.setting, Percent(head.pairs));
        }));
    maps.back().categories = settings;
  }
  const auto add = [&](const char* title, double ConvertedHead::*value, auto text) {
    if (std::none_of(heads.begin(), heads.end(), [&](auto& head) { return std::isfinite(head.*value); })) return;
    maps.push_back(grid.Map(
        title, [&](const ConvertedHead& head) { return head.*value; },
        [&](const ConvertedHead& head) { return text(head.*value); },
        [&](const ConvertedHead& head) {
          return FormatNumber(head.*value) + (head.setting.empty() ? "" : ", " + head.setting);
        }));
  };
  add("Mass recall", &ConvertedHead::recall, RecallText);
  const size_t before = maps.size();
  add("Error", &ConvertedHead::error, ErrorText);
  if (maps.size() > before) maps.back().log = true;
  return maps;
}

Table HeadTableOf(const std::vector<ConvertedHead>& heads) {
  Table table{{"layer and head", "setting", "pairs", "mass recall", "error"}, {}};
  for (const ConvertedHead& head : heads)
    table.Row({fmt::format("{}, {}", head.layer, head.head), head.setting.empty() ? "–" : head.setting,
               Percent(head.pairs), FormatNumber(head.recall), FormatNumber(head.error, 3)});
  return table;
}

// "bert-base" of "models/bert-base/".
std::string LastPart(const std::string& path) {
  std::string end = path;
  while (end.size() > 1 && end.back() == '/') end.pop_back();
  const std::string last = std::filesystem::path(end).filename().string();
  return last.empty() ? path : last;
}

std::string Subtitle(const Json& report) {
  const std::string model = TextOr(report, "model"), output = TextOr(report, "output");
  std::string text = model;
  if (!output.empty()) text += (text.empty() ? "→ " : " → ") + output;
  if (IsNumber(report, "seed")) text += (text.empty() ? "seed " : ", seed ") + report["seed"].dump();
  return text;
}

// A metric of which more is better is told as what is kept of it.
Card MetricCard(const Json& report) {
  std::string name = TextOr(report, "metric_name");
  const int direction = BetterDirection(name);
  if (name.starts_with("eval_")) name.erase(0, 5);
  std::replace(name.begin(), name.end(), '_', ' ');
  if (name.empty()) name = "the metric";
  const double metric = FigureOf(report, "metric"), exact = FigureOf(report, "metric_exact");
  if (direction > 0 && exact > 0 && metric >= 0)
    return {Percent(metric / exact),
            fmt::format("of {} kept: {}, with exact attention {}", name, FormatNumber(metric), FormatNumber(exact))};
  return {FormatNumber(metric), fmt::format("{}; with exact attention {}", name, FormatNumber(exact))};
}

std::vector<Card> Cards(const Json& report) {
  const Json budget = HasValue(report, "budget") ? report["budget"] : Json::object();
  const auto asked = [&](const char* key) {
    return IsNumber(budget, key) ? ", at most " + Percent(FigureOf(budget, key)) + " asked for" : "";
  };
  std::string before;
  if (IsNumber(report, "cosine_mean_before_recovery"))
    before = "; " + CosineText(FigureOf(report, "cosine_mean_before_recovery")) + " before recovery";
  std::vector<Card> cards{
      {Percent(FigureOf(report, "pairs_fraction")), "of the pairs of queries and keys are computed" + asked("pairs")},
      {Percent(FigureOf(report, "time_fraction")), "of exact attention's time" + asked("time")},
      {CosineText(FigureOf(report, "cosine_mean")), "mean cosine to the exact model" + before},
      {CosineText(FigureOf(report, "cosine_worst")), "worst cosine of a text"}};
  if (IsNumber(report, "token_cosine_mean"))
    cards.push_back({CosineText(FigureOf(report, "token_cosine_mean")), "mean cosine of single tokens' states"});
  if (IsNumber(report, "masked_loss_change"))
    cards.push_back({FormatNumber(FigureOf(report, "masked_loss_change"), 3),
                     "nats more loss on hidden words than the exact model has"});
  if (IsNumber(report, "metric") || IsNumber(report, "metric_exact")) cards.push_back(MetricCard(report));
  return cards;
}

std::string Counted(double number, const std::string& noun) {
  return FormatNumber(number) + ' ' + noun + (number == 1 ? "" : "s");
}

// What was done to the model.
std::string Done(const Json& report, const std::vector<ConvertedHead>& heads) {
  std::string text = "The model was trained with exact attention: every query meets every key. ";
  const std::string each = heads.size() < 2 ? "Each head" : fmt::format("Each of its {} heads", heads.size());
  const Json budget = HasValue(report, "budget") ? report["budget"] : Json::object();
  const std::string chosen = TextOr(report, "chosen");
  const bool of_pairs = IsNumber(budget, "pairs");
  if (!chosen.empty() && chosen != "head by head") {
    text += fmt::format(
        "All heads now have one attention ({}): of all that were measured within {} of exact attention's {} it loses "
        "least, also less than settings that were chosen head by head. ",
        chosen, Percent(FigureOf(budget, of_pairs ? "pairs" : "time")), of_pairs ? "pairs" : "time");
  } else if (of_pairs) {
    text += each + " now has an attention of its own, so chosen that together they compute at most " +
            Percent(FigureOf(budget, "pairs")) + " of the pairs of queries and keys and lose least. ";
  } else if (IsNumber(budget, "time")) {
    text += each + " now has an attention of its own, so chosen that together they take at most " +
            Percent(FigureOf(budget, "time")) + " of exact attention's time and lose least. ";
  } else {
    text += each + " now has the attention that was asked for. ";
  }
  if (std::any_of(heads.begin(), heads.end(), [](auto& head) { return head.setting.find(" × ") != std::string::npos; }))
    text +=
        "In clustered attention a query meets the keys of a few clusters exactly and every other cluster through one "
        "centroid: \"16 × 4\" stands for clusters of 16 keys, of which a query opens 4. ";
  if (!IsNumber(report, "recover_steps")) return text + "The weights are as they were.";
  text += fmt::format("Then the weights were trained for {} towards what the exact model gives",
                      Counted(FigureOf(report, "recover_steps"), "step"));
  if (IsNumber(report, "cosine_mean_before_recovery"))
    text += "; before that the mean cosine was " + CosineText(FigureOf(report, "cosine_mean_before_recovery"));
  return text + ".";
}

std::string FilesText(const Json& files) {
  constexpr size_t kMostNamed = 5;
  std::string text;
  for (size_t i = 0; i < std::min(files.size(), kMostNamed); ++i)
    if (files[i].is_string()) text += (text.empty() ? "" : ", ") + files[i].get<std::string>();
  return files.size() > kMostNamed ? fmt::format("{} and {} more", text, files.size() - kMostNamed) : text;
}

// On what it was measured.
std::string Measured(const Json& report) {
  std::string text;
  if (HasValue(report, "texts")) {
    const Json& texts = report["texts"];
    const std::string files = FilesText(ListOf(texts, "files"));
    const bool embedded = HasValue(texts, "embedded") && texts["embedded"] == true;
    text += fmt::format("Measured on {} of {} in all", Counted(FigureOf(texts, "count"), "text"),
                        Counted(FigureOf(texts, "tokens"), "token"));
    text += embedded ? ", those that come with the program" : files.empty() ? "" : ", from " + files;
    text += fmt::format(
        ". Cosines are between what the exact model and this one make of a text, and count {} held out, on which "
        "no choice was made. ",
        Counted(FigureOf(texts, "held_out"), "text"));
  }
  if (HasValue(report, "machine") && report["machine"].is_object())
    text +=
        "Times are those of attention alone, measured in turn with exact attention: " + MachineText(report["machine"]) +
        ".";
  return text;
}

// Names in the order in which they first appear, with what has them.
std::vector<std::pair<std::string, std::vector<const Json*>>> ByName(const Json& frontier) {
  std::vector<std::pair<std::string, std::vector<const Json*>>> groups;
  for (const Json& entry : frontier) {
    const std::string name = TextOr(entry, "name");
    auto group = std::find_if(groups.begin(), groups.end(), [&](auto& known) { return known.first == name; });
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->second.push_back(&entry);
  }
  return groups;
}

// The series of one chart; all names have a style of their own, the same in both charts. Single points come last, so
// that no curve covers them.
std::vector<Series> FrontierSeries(const Json& frontier, const char* cost) {
  constexpr double kRounding = 1e-12;  // of a cosine of equals; it would stretch the axis
  std::vector<Series> all;
  int style = 0;
  for (const auto& [name, entries] : ByName(frontier)) {
    Series series{name, {}, style++};
    for (const Json* entry : entries) {
      const double x = 100 * FigureOf(*entry, cost), y = 1 - FigureOf(*entry, "cosine_mean");
      if (x > 0 && y > kRounding) series.points.emplace_back(x, y);
    }
    std::sort(series.points.begin(), series.points.end());
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  std::stable_partition(all.begin(), all.end(), [](const Series& series) { return series.points.size() > 1; });
  return all;
}

// 1 − cosine against each cost that was measured.
std::vector<LineChart> FrontierCharts(const Json& frontier) {
  const Axis loss{"1 − mean cosine", true};
  std::vector<LineChart> charts;
  charts.push_back({"What is lost, against pairs computed",
                    {"% of exact attention's pairs", true, {0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100}},
                    loss,
                    FrontierSeries(frontier, "pairs_fraction")});
  charts.push_back({"What is lost, against time",
                    {"% of exact attention's time", false, {}, true},
                    loss,
                    FrontierSeries(frontier, "time_fraction")});
  std::erase_if(charts, [](const LineChart& chart) { return chart.series.empty(); });
  return charts;
}

Table FrontierTable(const Json& frontier) {
  const bool budgets = std::any_of(frontier.begin(), frontier.end(), [](auto& row) { return IsNumber(row, "budget"); });
  Table table{{"attention"}, {}};
  if (budgets) table.columns.push_back("budget");
  for (const char* column : {"pairs", "time", "mean cosine", "worst cosine"}) table.columns.push_back(column);
  const auto measured = [&](const char* key) {
    return std::any_of(frontier.begin(), frontier.end(), [&](auto& row) { return IsNumber(row, key); });
  };
  const bool tokens = measured("token_cosine_mean"), words = measured("masked_loss_change");
  if (tokens) table.columns.insert(table.columns.end(), {"tokens' cosine", "worst text's"});
  if (words) table.columns.push_back("masked words' loss");
  for (const Json& entry : frontier) {
    std::vector<std::string> cells{TextOr(entry, "name")};
    if (HasValue(entry, "setting")) cells[0] += ", " + TextOr(entry, "setting");
    if (budgets) cells.push_back(Percent(FigureOf(entry, "budget")));
    cells.push_back(Percent(FigureOf(entry, "pairs_fraction")));
    cells.push_back(Percent(FigureOf(entry, "time_fraction")) + SpreadText(100 * FigureOf(entry, "time_spread")));
    cells.push_back(CosineText(FigureOf(entry, "cosine_mean")) + SpreadText(FigureOf(entry, "cosine_spread")));
    cells.push_back(CosineText(FigureOf(entry, "cosine_worst")));
    for (const char* key : {"token_cosine_mean", "token_cosine_worst"})
      if (tokens) cells.push_back(CosineText(FigureOf(entry, key)));
    if (words) cells.push_back(FormatNumber(FigureOf(entry, "masked_loss_change"), 3));
    table.Row(std::move(cells));
  }
  return table;
}

void AddSeeds(const Json& seeds, Page& page) {
  Table table{{"seed", "pairs", "mean cosine", "worst cosine"}, {}};
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const Json& seed : seeds) {
    const double mean = FigureOf(seed, "cosine_mean");
    if (!std::isnan(mean)) {
      low = std::min(low, mean);
      high = std::max(high, mean);
    }
    table.Row({IsNumber(seed, "seed") ? seed["seed"].dump() : "–", Percent(FigureOf(seed, "pairs_fraction")),
               CosineText(mean), CosineText(FigureOf(seed, "cosine_worst"))});
  }
  page.Heading("Other seeds");
  if (low <= high)
    page.Paragraph(fmt::format("Clusters are drawn at random. Over {} seeds the mean cosine is {} to {}.", seeds.size(),
                               CosineText(low), CosineText(high)));
  page.Add(table);
}

void AddHeads(const std::vector<ConvertedHead>& heads, Page& page) {
  const std::vector<HeatMap> maps = HeadMaps(heads);
  if (maps.empty()) return;
  page.Heading("Head by head");
  page.Add(maps);
  page.Paragraph(
      "Settings stand from the cheapest on. Mass recall is the share of exact attention's probability on keys that "
      "queries meet themselves, not through a "
      "centroid. Error is what changes in a head's part of its layer's result, relative to exact attention; its "
      "colours "
      "are on a logarithmic scale.");
  page.Details("All heads", HeadTableOf(heads));
}

void AddFrontier(const Json& frontier, Page& page) {
  page.Heading("Cost and quality");
  const std::vector<LineChart> charts = FrontierCharts(frontier);
  if (!charts.empty()) {
    page.Add(charts);
    page.Paragraph("Lower is nearer to the exact model, further left is cheaper. Points of one name are joined.");
  }
  page.Add(FrontierTable(frontier));
}

}  // namespace

std::string ConversionPage(const Json& report) {
  const std::string model = TextOr(report, "model");
  Page page("Conversion" + (model.empty() ? "" : " of " + LastPart(model)), Subtitle(report));
  const std::vector<ConvertedHead> heads = HeadsOf(report);
  page.Cards(Cards(report));
  page.Paragraph(Done(report, heads));
  const std::string measured = Measured(report);
  if (!measured.empty()) page.Paragraph(measured);
  AddHeads(heads, page);
  if (const Json& frontier = ListOf(report, "frontier"); !frontier.empty()) AddFrontier(frontier, page);
  if (const Json& seeds = ListOf(report, "seeds"); !seeds.empty()) AddSeeds(seeds, page);
  std::vector<std::string> commands;
  for (const Json& command : ListOf(report, "commands"))
    if (command.is_string()) commands.push_back(command.get<std::string>());
  if (!commands.empty()) {
    page.Heading("Commands");
    page.Commands(commands);
  }
  return page.Html();
}

}  // namespace lshformer
