// Figures of a JSON object that may lack some, as text.
#pragma once
#include <string>

#include "base/json.h"

namespace lshformer {

bool IsNumber(const Json& object, const char* key);
double NumberOr(const Json& object, const char* key);     // NaN: no number
std::string TextOr(const Json& object, const char* key);  // "": no text

std::string Percent(double share);  // "24.9 %"; NaN: "–"
// "cpu X, threads 2". What was not measured (--no_machine) is not told.
std::string MachineText(const Json& machine);

}  // namespace lshformer
