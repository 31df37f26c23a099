// A one-file HTML report: style, charts and tables inside, nothing loaded from anywhere, no scripts.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"
#include "report/heat_map.h"
#include "report/table.h"

namespace lshformer {

// A figure to see at a glance: "2.9 x" "SimHash's speed at 8192 tokens".
struct Card {
  std::string value, caption;
};

// Parts appear in the order they are added. All text is escaped.
class Page {
 public:
  Page(std::string title, std::string subtitle);
  void Heading(std::string_view text);
  void Paragraph(std::string_view text);
  void Cards(const std::vector<Card>& cards);
  void Add(const Table& table);
  void Add(const std::vector<LineChart>& charts);
  void Add(const std::vector<BarChart>& charts);
  void Add(const std::vector<HeatMap>& maps);
  void Commands(const std::vector<std::string>& lines);                   // as they would be typed
  void Details(std::string_view summary, std::string_view preformatted);  // closed until clicked
  void Details(std::string_view summary, const Table& table);             // likewise
  std::string Html() const;                                               // the whole file; well-formed XML too

 private:
  std::string title_, subtitle_, body_;
};

// Whether a Page wrote this file.
bool IsOurPage(std::string_view html);

}  // namespace lshformer
