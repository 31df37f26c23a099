#include "base/option_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lshformer {
namespace {

// The whole of `text` as a number; false if it is none.
template <class Number>
bool ReadNumber(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// "zero, mean or none", each between two of `quote`.
std::string Listed(const std::vector<std::string>& names, const char* quote) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += fmt::format("{0}{1}{2}{1}", i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", quote, names[i]);
  return list;
}

}  // namespace

bool NumberRange::Holds(double x) const {
  return std::isfinite(x) && (low_open ? x > low : x >= low) && (high_open ? x < high : x <= high);
}

std::string NumberRange::Text() const {
  const bool above = std::isfinite(low), below = std::isfinite(high);
  if (above && below && !low_open && !high_open) return fmt::format("{} to {}", low, high);
  std::string text;
  if (above) text = fmt::format("{} {}", low_open ? "above" : "at least", low);
  if (below) text += fmt::format("{}{} {}", above ? " and " : "", high_open ? "below" : "at most", high);
  return text.empty() ? "a number" : text;
}

std::string IntegerRange(int64_t low, int64_t high) {
  if (high < INT32_MAX) return fmt::format("{} to {}", low, high);
  return low == INT64_MIN ? "" : fmt::format("at least {}", low);
}

Json NumberOrText(const std::string& text) {
  int64_t number = 0;
  return ReadNumber(text, number) ? Json(number) : Json(text);
}

Json IntegerOf(const std::string& text) {
  int64_t number = 0;
  uint64_t large = 0;
  if (ReadNumber(text, number)) return number;
  if (ReadNumber(text, large)) return large;
  Fail("expected an integer, got {}", Shown(text));
}

Json NumberOf(const std::string& text) {
  double number = 0;
  if (!ReadNumber(text, number)) Fail("expected a number, got {}", Shown(text));
  return number;
}

Json BooleanOf(const std::string& text) {
  if (text != "true" && text != "false") Fail("expected true or false, got {}", Shown(text));
  return text == "true";
}

std::string NameError(const std::vector<std::string>& names, const std::string& text) {
  if (std::find(names.begin(), names.end(), text) != names.end()) return "";
  return fmt::format("expected {}, got \"{}\"{}", Listed(names, ""), Shown(text), Suggestion(text, names));
}

size_t GetName(const Json& object, std::string_view key, std::string_view where,
               const std::vector<std::string>& names) {
  const std::string name = GetString(object, key, where);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) Fail("{}: \"{}\": expected {}, got \"{}\"", where, key, Listed(names, "\""), Shown(name));
  return static_cast<size_t>(found - names.begin());
}

bool IsEmpty(const Json& value) {
  return value.is_string() ? value.get_ref<const std::string&>().empty() : value.is_array() && value.empty();
}

uint64_t GetUnsigned(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = object.at(std::string(key));
  const bool negative = value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() < 0;
  if (!value.is_number_integer() || negative)
    Fail("{}: \"{}\": expected 0 to {}, got {}", where, key, UINT64_MAX, ShownValue(value));
  return value.get<uint64_t>();
}

}  // namespace lshformer
