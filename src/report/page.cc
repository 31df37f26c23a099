#include "report/page.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "report/page_parts.h"

namespace lshformer {
namespace {

constexpr const char* kGenerator = R"(<meta name="generator" content="lshformer"/>)";
// Nothing is loaded, whatever a page holds.
constexpr const char* kPolicy =
    R"(<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"/>)";

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

std::string InScrollBox(const Table& table) { return "<div class=\"scroll\">\n" + Html(table) + "</div>\n"; }

std::string Preformatted(const std::string& text) { return "<pre>" + EscapeXml(text) + "</pre>\n"; }

std::string FigureOf(const Illustration& illustration) {
  std::string selected;
  const Table numbers = NumbersOf(illustration.drawing, &selected);
  std::string out = "<figure>" + Svg(illustration.drawing) + "<figcaption>\n";
  if (!illustration.caption.empty()) out += "<p>" + Text(illustration.caption) + "</p>\n";
  if (!numbers.lines.empty())
    out += fmt::format("<details><summary>Numbers{}</summary>\n{}</details>\n", selected.empty() ? "" : ": " + selected,
                       InScrollBox(numbers));
  if (!illustration.command.empty()) out += Preformatted(illustration.command);
  return out + "</figcaption></figure>\n";
}

// A name as an address within the page: "bert-lsh/table-2" stays, anything unusual becomes a dash.
std::string Anchor(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("-_./").find(c) == std::string_view::npos)
      c = '-';
  return out;
}

template <class Chart>
std::vector<Illustration> Illustrations(const std::vector<Chart>& charts) {
  std::vector<Illustration> out;
  for (const Chart& chart : charts) out.push_back({chart});
  return out;
}

}  // namespace

Page::Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::Chapter(std::string_view name, std::string_view title, std::string_view verdict) {
  const std::string anchor = Anchor(name);
  if (std::any_of(chapters_.begin(), chapters_.end(), [&](const auto& other) { return other.anchor == anchor; }))
    Fail("a page has two chapters \"{}\"", name);
  if (!chapters_.empty()) body_ += "</section>\n";
  chapters_.push_back({anchor, std::string(title), std::string(verdict)});
  body_ += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n", anchor, EscapeXml(title));
}

void Page::Heading(std::string_view text) {
  body_ += fmt::format("<{0}>{1}</{0}>\n", chapters_.empty() ? "h2" : "h3", EscapeXml(text));
}

void Page::Paragraph(std::string_view text) { body_ += "<p>" + Text(text) + "</p>\n"; }

void Page::Cards(const std::vector<Card>& cards) {
  body_ += "<div class=\"cards\">\n";
  for (const Card& card : cards) {
    body_ += "<div class=\"card\"><b>" + Text(card.value) + "</b><span>" + Text(card.caption) + "</span></div>\n";
  }
  body_ += "</div>\n";
}

void Page::Add(const Table& table) { body_ += InScrollBox(table); }

void Page::Add(const std::vector<Illustration>& illustrations) {
  body_ += "<div class=\"charts\">\n";
  for (const Illustration& illustration : illustrations) body_ += FigureOf(illustration);
  body_ += "</div>\n";
}

void Page::Add(const std::vector<LineChart>& charts) { Add(Illustrations(charts)); }

void Page::Add(const std::vector<BarChart>& charts) { Add(Illustrations(charts)); }

void Page::Add(const std::vector<HeatMap>& maps) { Add(Illustrations(maps)); }

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

std::string Page::Contents() const {
  if (chapters_.size() < 2) return "";
  std::string out = "<nav aria-label=\"Contents\"><b>Contents</b>\n<ol>\n";
  for (const auto& [anchor, title, verdict] : chapters_) {
    out += fmt::format("<li><a href=\"#{}\">{}</a>", anchor, EscapeXml(title));
    if (!verdict.empty()) out += "<br/><span>" + Text(verdict) + "</span>";
    out += "</li>\n";
  }
  return out + "</ol>\n</nav>\n";
}

std::string Page::Html() const {
  const std::string style = ChartStyle() + HeatMapStyle() + PageStyle(), title = EscapeXml(title_);
  return fmt::format(R"(<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
{}
{}
<title>{}</title>
<style>{}</style>
</head>
<body>
<main>
<header><h1>{}</h1><p>{}</p></header>
{}{}{}</main>
<script>{}</script>
</body>
</html>
)",
                     kGenerator, kPolicy, title, style, title, EscapeXml(subtitle_), Contents(), body_,
                     chapters_.empty() ? "" : "</section>\n", PageScript());
}

}  // namespace lshformer
