#include "report/palette.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "report/chart.h"
#include "report/heat_map.h"

namespace lshformer {
namespace {

using Color = const char* NamedColor::*;

std::string Declarations(const std::vector<NamedColor>& colors, Color color) {
  std::string out;
  for (const NamedColor& named : colors) out += fmt::format(" --{}: {};", named.name, named.*color);
  return out;
}

std::string Replaced(const std::string& rules, const std::vector<NamedColor>& colors, Color color) {
  constexpr std::string_view kStart = "var(--";
  std::string out;
  size_t from = 0;
  for (size_t at = rules.find(kStart); at != rules.npos; at = rules.find(kStart, from)) {
    const size_t begin = at + kStart.size(), end = rules.find(')', begin);
    const std::string name = rules.substr(begin, end - begin);
    const auto named =
        std::find_if(colors.begin(), colors.end(), [&](const auto& other) { return other.name == name; });
    if (named == colors.end()) Fail("a drawing's style names a colour \"{}\", which there is not", name);
    out += rules.substr(from, at - from) + (*named).*color;
    from = end + 1;
  }
  return out + rules.substr(from);
}

}  // namespace

std::string Variables(const std::vector<NamedColor>& colors) {
  return fmt::format(":root {{{} }}\n@media (prefers-color-scheme: dark) {{ :root {{{} }} }}\n",
                     Declarations(colors, &NamedColor::light), Declarations(colors, &NamedColor::dark));
}

std::string WithColors(const std::string& rules, const std::vector<NamedColor>& colors) {
  return Replaced(rules, colors, &NamedColor::light) + "@media (prefers-color-scheme: dark) {\n" +
         Replaced(rules, colors, &NamedColor::dark) + "}\n";
}

// The palette of series is Okabe and Ito's for colour-blind readers, darkened on white and lightened on black to a
// contrast of at least 3:1 as WCAG asks of graphics.
const std::vector<NamedColor>& ChartColors() {
  static const std::vector<NamedColor> colors{
      {"paper", "#ffffff", "#14171b"}, {"ink", "#1b1f24", "#e8ecf0"},   {"soft", "#59636e", "#9aa5b1"},
      {"line", "#d9dee4", "#323942"},  {"panel", "#f6f8fa", "#1c2127"}, {"accent", "#0b62b0", "#6cb6ff"},
      {"s0", "#0b62b0", "#6cb6ff"},    {"s1", "#c04a00", "#ff9a52"},    {"s2", "#00795a", "#3fc79a"},
      {"s3", "#a3408a", "#e08fd0"},    {"s4", "#7a6300", "#e3c64a"},    {"s5", "#3f6f8f", "#9cc3dc"},
      {"s6", "#b3261e", "#ff8a80"},    {"s7", "#5b5b66", "#b4b4c0"}};
  return colors;
}

// One blue from the paper on, in steps of equal lightness but for the one in the middle, where neither ink nor paper
// would be read. Categories have the charts' colours, then pale ones.
const std::vector<NamedColor>& HeatMapColors() {
  static const std::vector<NamedColor> colors{
      {"h0", "#e7f1fc", "#1d2a37"}, {"h1", "#bfd8f2", "#1d364f"}, {"h2", "#96bfe9", "#1a4268"},
      {"h3", "#6ca5e0", "#174e7f"}, {"h4", "#428cd3", "#185a95"}, {"h5", "#0e6ab4", "#3a84ca"},
      {"h6", "#005297", "#6aa6e4"}, {"h7", "#003b74", "#9dc9f7"}, {"h8", "#002750", "#d2ebff"},
      {"p0", "#bdd5ea", "#2e475f"}, {"p1", "#eeceba", "#5a3e2c"}, {"p2", "#badbd2", "#214c41"},
      {"p3", "#e6cbdf", "#513b51"}, {"p4", "#dbd5ba", "#524c29"}, {"p5", "#cbd8e1", "#3d4b55"},
      {"p6", "#eac4c2", "#5a3a39"}, {"p7", "#d3d3d6", "#44464c"}};
  return colors;
}

std::string ChartRules() {
  return R"(.chart { display: block; width: 100%; height: auto; font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.chart text { font-size: 12.5px; fill: var(--soft); }
.chart .title { font-size: 14.5px; font-weight: 600; fill: var(--ink); }
.chart .legend { fill: var(--ink); }
.chart .value { font-size: 12px; fill: var(--ink); }
.chart .axisname { font-size: 12px; fill: var(--ink); }
.chart .small { font-size: 11px; }
.chart .middle { text-anchor: middle; }
.chart .end { text-anchor: end; }
.chart .grid { fill: none; stroke: var(--line); stroke-width: 1; }
.chart .axis { stroke: var(--soft); stroke-width: 1; }
.chart .level { stroke: var(--ink); stroke-width: 1.4; }
.chart .l { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.chart .m { fill: currentColor; stroke: var(--paper); stroke-width: 0.8; }
.chart .b { fill: currentColor; }
.chart .r { fill: currentColor; fill-opacity: 0.12; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.chart .l.p { stroke-width: 1.2; }
.chart .m.p { fill: var(--paper); stroke: currentColor; stroke-width: 1.4; }
.chart .b.p { fill: var(--paper); stroke: currentColor; stroke-width: 1.6; stroke-dasharray: 4 2; }
.chart .r.p, .chart .r.open { fill: none; }
.chart .r.p { stroke-width: 1.4; }
.chart .m:hover, .chart .b:hover, .chart .on { stroke: var(--ink); stroke-width: 2; }
.chart .s0 { color: var(--s0); } .chart .s1 { color: var(--s1); } .chart .s2 { color: var(--s2); } .chart .s3 { color: var(--s3); }
.chart .s4 { color: var(--s4); } .chart .s5 { color: var(--s5); } .chart .s6 { color: var(--s6); } .chart .s7 { color: var(--s7); }
)";
}

std::string HeatMapRules() {
  return R"(.chart g rect { stroke: var(--paper); stroke-width: 1; }
.chart .hn rect { fill: var(--panel); stroke: var(--line); }
.chart .frame { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linecap: square; }
.chart .h0 rect { fill: var(--h0); } .chart .h1 rect { fill: var(--h1); } .chart .h2 rect { fill: var(--h2); }
.chart .h3 rect { fill: var(--h3); } .chart .h4 rect { fill: var(--h4); } .chart .h5 rect { fill: var(--h5); }
.chart .h6 rect { fill: var(--h6); } .chart .h7 rect { fill: var(--h7); } .chart .h8 rect { fill: var(--h8); }
.chart .q0 rect { fill: var(--s0); } .chart .q1 rect { fill: var(--s1); } .chart .q2 rect { fill: var(--s2); } .chart .q3 rect { fill: var(--s3); }
.chart .q4 rect { fill: var(--s4); } .chart .q5 rect { fill: var(--s5); } .chart .q6 rect { fill: var(--s6); } .chart .q7 rect { fill: var(--s7); }
.chart .q8 rect { fill: var(--p0); } .chart .q9 rect { fill: var(--p1); } .chart .q10 rect { fill: var(--p2); } .chart .q11 rect { fill: var(--p3); }
.chart .q12 rect { fill: var(--p4); } .chart .q13 rect { fill: var(--p5); } .chart .q14 rect { fill: var(--p6); } .chart .q15 rect { fill: var(--p7); }
.chart .cell { font-size: 11px; fill: var(--ink); }
.chart .h5 .cell, .chart .h6 .cell, .chart .h7 .cell, .chart .h8 .cell,
.chart .q0 .cell, .chart .q1 .cell, .chart .q2 .cell, .chart .q3 .cell, .chart .q4 .cell, .chart .q5 .cell, .chart .q6 .cell, .chart .q7 .cell { fill: var(--paper); }
.chart g:hover rect, .chart g.on rect { stroke: var(--ink); stroke-width: 1.6; }
)";
}

std::string ChartStyle() { return ":root { color-scheme: light dark; }\n" + Variables(ChartColors()) + ChartRules(); }

std::string HeatMapStyle() { return Variables(HeatMapColors()) + HeatMapRules(); }

}  // namespace lshformer
