// What a source says of its figures, and whether ours bear it out, by a rule that stands in the recipe.
//
// A claim is of one cell, of the ratio of two, or of their difference. Verdicts are words; each rule is stated beside
// its verdict.
#pragma once
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace lshformer {

// A cell of a recipe's table.
struct CellName {
  std::string row, column;
};

// As it is shown (times, per cent), mean over seeds; NaN: not measured.
struct CellFigure {
  double value = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();  // over seeds; NaN: of one
};

struct Claim {
  enum class Measure { kValue, kRatio, kDifference };
  // kEquals: within the share `tolerance` of what was published. kDirection: ours differ in the same direction, by more
  // than `least`; and in size within the share `tolerance`, which may be infinite. kAtMost, kAtLeast: within `bound`,
  // whatever was published.
  enum class Rule { kEquals, kDirection, kAtMost, kAtLeast };

  std::string text;  // in the source's sense
  Measure measure = Measure::kValue;
  CellName of, other;               // the value; of / other; of − other
  std::optional<double> published;  // the same measure as the source has it, or as it follows from its figures
  Rule rule = Rule::kEquals;
  double tolerance = 0, least = 0, bound = 0;
  bool in_quick_form = false;  // whether the quick form can tell
};

struct Verdict {
  enum class Kind { kHolds, kDirectionOnly, kNoDifference, kFails, kNotMeasured, kNotJudged };
  Kind kind = Kind::kNotMeasured;
  double measured = std::numeric_limits<double>::quiet_NaN();
  double noise = 0;   // of the measure, from deviations over seeds: twice their combination; 0 where there are none
  std::string words;  // "holds", "does not hold: the other way round"
};
const char* Name(Verdict::Kind kind);  // "holds", "holds in direction", …: for JSON and counts

// Error names `where` and the key at fault.
Claim ParseClaim(const Json& json, const std::string& where);
// "within 1 % of the published figure", "at most 1".
std::string RuleText(const Claim& claim);
// With the figures of both cells; `other` is not looked at for a value.
Verdict Judge(const Claim& claim, const CellFigure& of, const CellFigure& other, bool quick_form);

}  // namespace lshformer
