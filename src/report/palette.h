// CSS of drawings: colours by name, light and dark, and rules that name them as var(--name).
//
// A page declares the colours once, as variables that follow the reader's setting. A file of its own has them written
// into its rules, since not every program that shows SVG knows variables.
#pragma once
#include <string>
#include <vector>

namespace lshformer {

struct NamedColor {
  const char *name, *light, *dark;  // "ink", "#1b1f24", "#e8ecf0"
};

const std::vector<NamedColor>& ChartColors();
const std::vector<NamedColor>& HeatMapColors();
std::string ChartRules();
std::string HeatMapRules();

// ":root { --ink: #1b1f24; … }" and the same for readers who want it dark.
std::string Variables(const std::vector<NamedColor>& colors);
// The rules with every var(--name) replaced, for light and, in a media query, for dark. Error for an unknown name.
std::string WithColors(const std::string& rules, const std::vector<NamedColor>& colors);

}  // namespace lshformer
