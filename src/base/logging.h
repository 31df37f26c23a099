// Log lines on stderr through spdlog, as text or as JSON lines. Level and format are set once, by the command line.
#pragma once
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace lshformer {

enum class LogFormat { kText, kJson };

// level: "trace", "debug", "info", "warn", "error", "off". Default of the program: warn.
// before_options stands in front of every OptionName of a warning.
void SetUpLogging(const std::string& level, LogFormat format, std::string_view before_options = "");

// A warning that may name options, spelled as SetUpLogging says: Warn("{}: cut", OptionName{"text"}).
void WarnText(const std::string& marked);
template <class... Args>
void Warn(fmt::format_string<Args...> format, Args&&... args) {
  WarnText(fmt::format(format, std::forward<Args>(args)...));
}

// Keeps warnings back while something may still refuse the work: a command that fails says one line, the error. They
// are written by Release or at the end; where an exception ends it, they are dropped. Of a level that asks for more
// than warnings nothing is kept back.
class HeldLog {
 public:
  HeldLog();
  ~HeldLog();
  HeldLog(const HeldLog&) = delete;
  HeldLog& operator=(const HeldLog&) = delete;
  void Release();
  void Drop();  // what was kept so far is not written

 private:
  class Sink;
  std::shared_ptr<spdlog::logger> logger_;  // the one that is held; null once it is released
  std::shared_ptr<Sink> sink_;
  int exceptions_;
};

}  // namespace lshformer
