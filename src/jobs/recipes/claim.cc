#include "jobs/recipes/claim.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "jobs/recipes/reading.h"
#include "report/table.h"

namespace lshformer {
namespace {

using Measure = Claim::Measure;
using Rule = Claim::Rule;

CellName ParseCell(const Json& object, const char* key, const std::string& where) {
  const std::string text = GetString(object, key, where);
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size())
    Fail("{}: \"{}\": expected ROW/COLUMN, got \"{}\"", where, key, Shown(text));
  return {text.substr(0, slash), text.substr(slash + 1)};
}

// {"equals": 0.01}, {"direction": 0.5, "least": 0.02}, {"direction": true}, {"at_most": 1}, {"at_least": 95}
void ParseRule(const Json& rule, const std::string& where, Claim& claim) {
  RefuseOtherKeys(rule, {"equals", "direction", "least", "at_most", "at_least"}, where);
  const std::vector<std::pair<const char*, Rule>> rules{{"equals", Rule::kEquals},
                                                        {"direction", Rule::kDirection},
                                                        {"at_most", Rule::kAtMost},
                                                        {"at_least", Rule::kAtLeast}};
  int given = 0;
  for (const auto& [key, kind] : rules) {
    if (!rule.contains(key)) continue;
    ++given;
    claim.rule = kind;
    const bool any_size = kind == Rule::kDirection && rule.at(key) == true;
    const double number = any_size ? std::numeric_limits<double>::infinity() : GetNumber(rule, key, where);
    (kind == Rule::kEquals || kind == Rule::kDirection ? claim.tolerance : claim.bound) = number;
  }
  if (given != 1) Fail("{}: expected one of \"equals\", \"direction\", \"at_most\" and \"at_least\"", where);
  if (rule.contains("least") && claim.rule != Rule::kDirection) Fail("{}: \"least\" belongs to \"direction\"", where);
  claim.least = OptionalNumber(rule, "least", where, 0);
}

double MeasureOf(const Claim& claim, double of, double other) {
  if (claim.measure == Measure::kRatio) return of / other;
  return claim.measure == Measure::kDifference ? of - other : of;
}

double NoiseOf(const Claim& claim, const CellFigure& of, const CellFigure& other) {
  const auto squared = [](double deviation) { return std::isfinite(deviation) ? deviation * deviation : 0; };
  constexpr double kDeviations = 2;
  if (claim.measure == Measure::kValue) return kDeviations * std::sqrt(squared(of.deviation));
  if (claim.measure == Measure::kDifference)
    return kDeviations * std::sqrt(squared(of.deviation) + squared(other.deviation));
  const double relative = std::sqrt(squared(of.deviation / of.value) + squared(other.deviation / other.value));
  return kDeviations * relative * std::abs(of.value / other.value);
}

// What a measure is where nothing differs.
double NeutralOf(const Claim& claim) { return claim.measure == Measure::kRatio ? 1 : 0; }

bool IsWithin(double measured, double published, double tolerance) {
  return std::abs(measured - published) <= tolerance * std::abs(published);
}

Verdict JudgeDirection(const Claim& claim, Verdict verdict) {
  const double ours = verdict.measured - NeutralOf(claim), theirs = *claim.published - NeutralOf(claim);
  const double least = std::max(claim.least, verdict.noise);
  if (std::abs(ours) <= least) {
    verdict.kind = Verdict::Kind::kNoDifference;
    verdict.words = verdict.noise > claim.least ? "no difference beyond that of seeds" : "no difference";
  } else if ((ours > 0) != (theirs > 0)) {
    verdict.kind = Verdict::Kind::kFails;
    verdict.words = "does not hold: it is the other way round";
  } else if (IsWithin(ours, theirs, claim.tolerance)) {
    verdict.kind = Verdict::Kind::kHolds;
    verdict.words = std::isfinite(claim.tolerance) ? "holds, in direction and size" : "holds, in direction";
  } else {
    verdict.kind = Verdict::Kind::kDirectionOnly;
    verdict.words = fmt::format("holds in direction; the size is {} times theirs", FormatNumber(ours / theirs, 2));
  }
  return verdict;
}

}  // namespace

const char* Name(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kHolds:
      return "holds";
    case Verdict::Kind::kDirectionOnly:
      return "holds in direction";
    case Verdict::Kind::kNoDifference:
      return "no difference";
    case Verdict::Kind::kFails:
      return "does not hold";
    case Verdict::Kind::kNotMeasured:
      return "not measured";
    case Verdict::Kind::kNotJudged:
      return "not judged";
  }
  return "";
}

Claim ParseClaim(const Json& json, const std::string& where) {
  RefuseOtherKeys(json, {"claim", "of", "over", "minus", "published", "rule", "quick"}, where);
  Claim claim;
  RequireMember(json, "claim", where);
  claim.text = GetString(json, "claim", where);
  RequireMember(json, "of", where);
  claim.of = ParseCell(json, "of", where);
  if (json.contains("over") && json.contains("minus")) Fail("{}: expected \"over\" or \"minus\", got both", where);
  for (const auto& [key, measure] : {std::pair("over", Measure::kRatio), {"minus", Measure::kDifference}}) {
    if (!json.contains(key)) continue;
    claim.measure = measure;
    claim.other = ParseCell(json, key, where);
  }
  if (json.contains("published")) claim.published = GetNumber(json, "published", where);
  ParseRule(RequireMember(json, "rule", where), where + ": \"rule\"", claim);
  if (claim.rule == Rule::kDirection && claim.measure == Measure::kValue)
    Fail("{}: \"direction\" needs \"over\" or \"minus\"", where);
  claim.in_quick_form = GetBoolOr(json, "quick", where, false);
  return claim;
}

std::string RuleText(const Claim& claim) {
  switch (claim.rule) {
    case Rule::kEquals:
      return claim.tolerance == 0 ? "equal to the published figure"
                                  : fmt::format("within {:.4g} % of the published figure", 100 * claim.tolerance);
    case Rule::kDirection:
      return fmt::format(
          "{}in the same direction{}", claim.least > 0 ? fmt::format("more than {:.4g} apart, ", claim.least) : "",
          std::isfinite(claim.tolerance) ? fmt::format("; in size within {:.4g} %", 100 * claim.tolerance) : "");
    case Rule::kAtMost:
      return fmt::format("at most {:.4g}", claim.bound);
    case Rule::kAtLeast:
      return fmt::format("at least {:.4g}", claim.bound);
  }
  return "";
}

Verdict Judge(const Claim& claim, const CellFigure& of, const CellFigure& other, bool quick_form) {
  Verdict verdict;
  verdict.measured = MeasureOf(claim, of.value, other.value);
  verdict.noise = NoiseOf(claim, of, other);
  if (!std::isfinite(verdict.measured)) {
    verdict.measured = std::numeric_limits<double>::quiet_NaN();
    verdict.words = "not measured";
    return verdict;
  }
  if (quick_form && !claim.in_quick_form) {
    verdict.kind = Verdict::Kind::kNotJudged;
    verdict.words = "the quick form is too small to tell";
    return verdict;
  }
  const bool against_theirs = claim.rule == Rule::kEquals || claim.rule == Rule::kDirection;
  if (against_theirs && !claim.published) {
    verdict.words = "nothing published to compare with";
    return verdict;
  }
  if (claim.rule == Rule::kDirection) return JudgeDirection(claim, verdict);
  const bool holds = claim.rule == Rule::kEquals   ? IsWithin(verdict.measured, *claim.published, claim.tolerance)
                     : claim.rule == Rule::kAtMost ? verdict.measured <= claim.bound
                                                   : verdict.measured >= claim.bound;
  verdict.kind = holds ? Verdict::Kind::kHolds : Verdict::Kind::kFails;
  verdict.words = holds ? "holds" : "does not hold";
  if (!holds && claim.rule == Rule::kEquals && *claim.published != 0)
    verdict.words +=
        fmt::format(": {} times the published figure", FormatNumber(verdict.measured / *claim.published, 3));
  return verdict;
}

}  // namespace lshformer
