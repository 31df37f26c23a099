#include "report/json_figures.h"

#include <cmath>

#include "report/table.h"

namespace lshformer {

bool IsNumber(const Json& object, const char* key) { return HasValue(object, key) && object[key].is_number(); }

double NumberOr(const Json& object, const char* key) {
  return IsNumber(object, key) ? object[key].get<double>() : std::nan("");
}

std::string TextOr(const Json& object, const char* key) {
  return HasValue(object, key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

std::string Percent(double share) { return std::isnan(share) ? "–" : FormatNumber(100 * share, 3) + " %"; }

std::string MachineText(const Json& machine) {
  std::string text;
  for (const auto& [key, value] : machine.items()) {
    if (value.is_null()) continue;
    text += (text.empty() ? "" : ", ") + key + ' ' +
            (value.is_string()   ? value.get<std::string>()
             : value.is_number() ? FormatNumber(value.get<double>())
                                 : value.dump());
  }
  return text;
}

}  // namespace lshformer
