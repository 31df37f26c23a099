// Log lines on stderr through spdlog, as text or as JSON lines. Level and format are set once, by the command line.
#pragma once
#include <spdlog/spdlog.h>

#include <string>

namespace lshformer {

enum class LogFormat { kText, kJson };

// level: "trace", "debug", "info", "warn", "error", "off". Default of the program: warn.
void SetUpLogging(const std::string& level, LogFormat format);

}  // namespace lshformer
