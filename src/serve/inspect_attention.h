// What the attention of a served model looks at, for people to see: one head of one layer on one short text, exact and
// under another attention.
#pragma once
#include <string>

#include "serve/api_request.h"
#include "serve/served_model.h"

namespace lshformer {

inline constexpr int kLongestInspected = 256;  // tokens

// {"tokens": […], "exact": M, "other": M, "cosine": c}, where M is {"attention", "pairs", "milliseconds", "map"}: a row
// of the map a query, null where the pair was not computed; `pairs` are those of all layers and heads, a millisecond of
// one forward; c is the cosine between the mean states of the two. RequestError 422 of a longer text, a layer or head
// that there is not, an attention that the model cannot have.
std::string InspectBody(const ApiRequest& request, const ServedModel& model);

}  // namespace lshformer
