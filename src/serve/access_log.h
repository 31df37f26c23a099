// One line a request.
#pragma once
#include <cstdint>

#include "serve/http.h"
#include "serve/metrics.h"

namespace lshformer {

// As JSON on stderr, with the trace that the client named (traceparent); or, where `json` is not asked for, a log line
// of level info.
void LogRequest(const HttpRequest& request, int status, int64_t inputs, const RequestTimes& times, bool json);

}  // namespace lshformer
