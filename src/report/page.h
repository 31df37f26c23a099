// A one-file HTML report: style, script, charts and tables inside, nothing loaded from anywhere (its policy forbids
// it).
//
// Without its script it says the same; with it, tables are sorted by a click on a column and values are shown under the
// pointer or a finger.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "report/drawing.h"
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
  // A part of a page of several, with a line in the contents that stand at the page's head as soon as there are two.
  // page.html#NAME leads to it; `verdict` stands in its line of the contents. Names must differ.
  void Chapter(std::string_view name, std::string_view title, std::string_view verdict = "");
  void Heading(std::string_view text);  // within a chapter, where there are any
  void Paragraph(std::string_view text);
  void Cards(const std::vector<Card>& cards);
  void Add(const Table& table);
  void Add(const std::vector<Illustration>& illustrations);  // side by side where there is room
  void Add(const std::vector<LineChart>& charts);
  void Add(const std::vector<BarChart>& charts);
  void Add(const std::vector<HeatMap>& maps);
  void Commands(const std::vector<std::string>& lines);                   // as they would be typed
  void Details(std::string_view summary, std::string_view preformatted);  // closed until clicked
  void Details(std::string_view summary, const Table& table);             // likewise
  std::string Html() const;                                               // the whole file; well-formed XML too

 private:
  struct Part {
    std::string anchor, title, verdict;
  };
  std::string Contents() const;

  std::string title_, subtitle_, body_;
  std::vector<Part> chapters_;
};

// Whether a Page wrote this file.
bool IsOurPage(std::string_view html);

}  // namespace lshformer
