#include "serve/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/terminal.h"

namespace lshformer {

void LogRequest(const HttpRequest& request, int status, int64_t inputs, const RequestTimes& times, bool json) {
  if (!json && !spdlog::should_log(spdlog::level::info)) return;
  const std::string trace = Shown(request.Header("traceparent"), 80), path = Shown(request.path(), 120);
  if (!json) {
    spdlog::info("{} {} {}, {} inputs, {} tokens, {:.1f} ms{}", Shown(request.method), path, status, inputs,
                 times.tokens, times.total * 1000, trace.empty() ? "" : ", trace " + trace);
    return;
  }
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const auto milliseconds = [](double seconds) {
    return static_cast<double>(static_cast<int64_t>(seconds * 1e6)) / 1e3;
  };
  Json line{{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
            {"level", "info"},
            {"message", "request"},
            {"method", request.method},
            {"path", path},
            {"status", status},
            {"inputs", inputs},
            {"tokens", times.tokens},
            {"total_ms", milliseconds(times.total)},
            {"tokenization_ms", milliseconds(times.tokenization)},
            {"queue_ms", milliseconds(times.queue)},
            {"inference_ms", milliseconds(times.inference)}};
  if (!trace.empty()) line["traceparent"] = trace;
  WriteStderrLine(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace lshformer
