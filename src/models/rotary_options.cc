#include "models/rotary_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace lshformer {
namespace {

constexpr std::pair<std::string_view, RotaryScaling> kTypes[] = {
    {"default", RotaryScaling::kNone}, {"linear", RotaryScaling::kLinear}, {"dynamic", RotaryScaling::kDynamic}};
constexpr NumberRange kThetas{.low = 0, .high = 1e12, .low_open = true}, kFactors{.low = 1, .high = 1e6};

double Read(const Json& object, const char* key, const NumberRange& range, std::string_view where) {
  const double number = GetNumber(object, key, where);
  if (!range.Holds(number)) Fail("{}: \"{}\": expected {}, got {}", where, key, range.Text(), number);
  return number;
}

RotaryScaling Type(const Json& object, std::string_view where) {
  const char* key = HasValue(object, "rope_type") ? "rope_type" : "type";
  if (!HasValue(object, key)) return RotaryScaling::kNone;
  const std::string name = GetString(object, key, where);
  for (const auto& [type, scaling] : kTypes)
    if (name == type) return scaling;
  Fail("{}: \"{}\": expected \"default\", \"linear\" or \"dynamic\", got \"{}\"", where, key, Shown(name));
}

}  // namespace

void ReadRotary(const Json& object, std::string_view where, Rotary& into) {
  if (!object.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(object));
  into.scaling = Type(object, where);
  if (HasValue(object, "rope_theta")) into.theta = Read(object, "rope_theta", kThetas, where);
  into.factor = 1;
  if (into.scaling != RotaryScaling::kNone) {
    if (!HasValue(object, "factor")) Fail("{}: \"factor\" is missing", where);
    into.factor = Read(object, "factor", kFactors, where);
  }
  if (HasValue(object, "partial_rotary_factor") && GetNumber(object, "partial_rotary_factor", where) != 1)
    Fail("{}: \"partial_rotary_factor\": expected 1 (all numbers of a head turn), got {}", where,
         ShownValue(object["partial_rotary_factor"]));
}

Json WriteRotary(const Rotary& rotary) {
  Json json = Json::object();
  for (const auto& [type, scaling] : kTypes)
    if (rotary.scaling == scaling) json["rope_type"] = type;
  json["rope_theta"] = rotary.theta;
  if (rotary.scaling != RotaryScaling::kNone) json["factor"] = rotary.factor;
  return json;
}

int64_t LongestRotary(int64_t positions, Rotary& rotary) {
  if (rotary.scaling != RotaryScaling::kDynamic) return positions;
  rotary.original = positions;
  return std::min(kMostPositions, static_cast<int64_t>(std::floor(rotary.factor * static_cast<double>(positions))));
}

void GrowRotary(int64_t trained, int64_t positions, std::string_view where, Rotary& rotary) {
  if (rotary.scaling == RotaryScaling::kLinear)
    Fail("{}: \"rope_type\" \"linear\": {} is for \"default\" and \"dynamic\"", where, OptionName{"extend_positions"});
  rotary.scaling = RotaryScaling::kDynamic;
  rotary.factor = static_cast<double>(positions) / static_cast<double>(trained);
  while (LongestRotary(trained, rotary) < positions) rotary.factor = std::nextafter(rotary.factor, HUGE_VAL);
}

}  // namespace lshformer
