// Tables of text cells: aligned plain text for a terminal, HTML, Markdown.
//
//   Table table{{"", "exact", "SimHash"}};
//   table.Section("Pretraining");
//   table.Row({"loss", "5.607", "5.551"});
//   fputs(PlainText(table).c_str(), stdout);
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// The first column is text, aligned left; the others hold values, aligned right, unless `words` names them.
struct Table {
  struct Line {
    std::vector<std::string> cells;  // as many as columns; a section has one
    bool section = false;            // a heading over the lines that follow
    int best = -1;                   // column to stress, or −1
  };

  std::vector<std::string> columns;
  std::vector<Line> lines;
  std::vector<size_t> words = {};  // further columns of text: verdicts, reasons; aligned left, in pages broken in lines

  Table& Section(std::string title);
  // Error if the number of cells is not that of the columns.
  Table& Row(std::vector<std::string> cells, int best = -1);
};

std::string PlainText(const Table& table);  // one line per row, no line ends in spaces
std::string Html(const Table& table);       // <table>…</table>, well-formed XML
// GitHub's: a section is a line with its name in bold, the best of a line is bold. No cell can end a column or a line.
std::string Markdown(const Table& table);

// A number for people: about `digits` significant digits, never a thousands separator; whole numbers stay whole up to
// 2^53; "e" notation only below 1e-4 and from 1e15. NaN is "–" (not measured), infinity "∞".
std::string FormatNumber(double value, int digits = 4);

// Text as XML content or attribute value: &<>"' escaped, invalid UTF-8 and characters XML forbids become U+FFFD.
std::string EscapeXml(std::string_view text);

// Columns of a terminal that UTF-8 text takes (combining marks 0, East Asian wide characters 2).
int DisplayWidth(std::string_view text);

}  // namespace lshformer
