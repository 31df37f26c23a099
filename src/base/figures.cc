#include "base/figures.h"

#include <limits>

#include "base/error.h"
#include "base/not_finite.h"

namespace lshformer {

Figures::Figures(const Json& values) {
  if (values.is_null()) return;
  if (!values.is_object()) Fail("expected an object of figures, got {}", ShownValue(values));
  values_ = values;
}

std::vector<std::string> Figures::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_.items()) names.push_back(name);
  return names;
}

double Figures::operator[](std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) Fail("there is no figure \"{}\"{}", Shown(name), Suggestion(name, names()));
  if (found->is_number()) return found->get<double>();
  if (!found->is_null() && !IsNotFinite(*found)) Fail("{}: expected a number, got {}", Shown(name), ShownValue(*found));
  return std::numeric_limits<double>::quiet_NaN();
}

void to_json(Json& json, const Figures& figures) { json = figures.empty() ? Json() : figures.values_; }

std::vector<Figures> FiguresOfEach(const Json& list) {
  if (!list.is_array()) Fail("expected a list of figures, got {}", ShownValue(list));
  return {list.begin(), list.end()};
}

}  // namespace lshformer
