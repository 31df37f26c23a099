#include "report/page.h"

#include <fmt/core.h>

namespace lshformer {
namespace {

constexpr const char* kGenerator = R"(<meta name="generator" content="lshformer"/>)";
constexpr const char* kStyle = R"(
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 64px; }
header { border-bottom: 3px solid var(--accent); margin-bottom: 24px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
header p { color: var(--soft); margin: 0 0 14px; }
h2 { font-size: 1.2rem; margin: 36px 0 10px; }
p { max-width: 72ch; margin: 10px 0; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 190px), 1fr)); gap: 12px; margin: 16px 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.card b { display: block; font-size: 1.5rem; line-height: 1.25; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.card span { color: var(--soft); font-size: 0.88rem; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); gap: 16px; margin: 14px 0; }
.charts > figure { margin: 0; border: 1px solid var(--line); border-radius: 10px; padding: 10px; min-width: 0; max-width: 640px; }
.scroll { overflow-x: auto; margin: 14px 0; --shade: color-mix(in srgb, var(--ink) 35%, transparent); background:
  linear-gradient(to right, var(--paper) 40%, transparent) left / 48px 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) right / 48px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: 0.94rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 14px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { border-bottom: 2px solid var(--soft); }
th:first-child { text-align: left; font-weight: 400; padding-left: 4px; white-space: normal; min-width: 9rem; }
thead th, tr.section th { font-weight: 600; }
tr.section th { text-align: left; padding-top: 16px; color: var(--accent); }
td.best { font-weight: 700; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.88rem; line-height: 1.6; }
summary { cursor: pointer; margin: 8px 0; }
@media (max-width: 640px) {
  main { padding: 20px 12px 48px; }
  table { font-size: 0.75rem; }
  th, td { padding: 4px 5px; }
  th:first-child { min-width: 5rem; padding-left: 0; }
  thead th { white-space: normal; }
}
@media print { .charts > figure, .card { break-inside: avoid; } }
)";

// Text of a page: escaped, and no line breaks between a number and its "%" or "x".
std::string Text(std::string_view text) {
  std::string out = EscapeXml(text);
  for (size_t space = out.find(' '); space != std::string::npos; space = out.find(' ', space + 1)) {
    const auto at = [&](size_t i) { return i < out.size() ? out[i] : ' '; };
    const bool unit = at(space + 1) == '%' || (at(space + 1) == 'x' && (at(space + 2) == ' ' || at(space + 2) == ','));
    if (space > 0 && out[space - 1] >= '0' && out[space - 1] <= '9' && unit) out.replace(space, 1, "\u00A0");
  }
  return out;
}

template <class Chart>
std::string Figures(const std::vector<Chart>& charts) {
  std::string out = "<div class=\"charts\">\n";
  for (const Chart& chart : charts) {
    out += "<figure>" + Svg(chart) + "</figure>\n";
  }
  return out + "</div>\n";
}

}  // namespace

Page::Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::Heading(std::string_view text) { body_ += "<h2>" + EscapeXml(text) + "</h2>\n"; }

void Page::Paragraph(std::string_view text) { body_ += "<p>" + Text(text) + "</p>\n"; }

void Page::Cards(const std::vector<Card>& cards) {
  body_ += "<div class=\"cards\">\n";
  for (const Card& card : cards) {
    body_ += "<div class=\"card\"><b>" + Text(card.value) + "</b><span>" + Text(card.caption) + "</span></div>\n";
  }
  body_ += "</div>\n";
}

void Page::Add(const Table& table) { body_ += "<div class=\"scroll\">\n" + lshformer::Html(table) + "</div>\n"; }

void Page::Add(const std::vector<LineChart>& charts) { body_ += Figures(charts); }

void Page::Add(const std::vector<BarChart>& charts) { body_ += Figures(charts); }

void Page::Add(const std::vector<HeatMap>& maps) { body_ += Figures(maps); }

void Page::Commands(const std::vector<std::string>& lines) {
  body_ += "<pre>";
  for (const std::string& line : lines) {
    body_ += EscapeXml(line) + '\n';
  }
  body_ += "</pre>\n";
}

void Page::Details(std::string_view summary, std::string_view preformatted) {
  body_ +=
      "<details><summary>" + EscapeXml(summary) + "</summary><pre>" + EscapeXml(preformatted) + "</pre></details>\n";
}

void Page::Details(std::string_view summary, const Table& table) {
  body_ += "<details><summary>" + EscapeXml(summary) + "</summary>\n";
  Add(table);
  body_ += "</details>\n";
}

bool IsOurPage(std::string_view html) { return html.find(kGenerator) != html.npos; }

std::string Page::Html() const {
  return fmt::format(R"(<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
{}
<title>{}</title>
<style>{}{}{}</style>
</head>
<body>
<main>
<header><h1>{}</h1><p>{}</p></header>
{}</main>
</body>
</html>
)",
                     kGenerator, EscapeXml(title_), ChartStyle(), HeatMapStyle(), kStyle, EscapeXml(title_),
                     EscapeXml(subtitle_), body_);
}

}  // namespace lshformer
