#include "base/logging.h"

#include <fmt/chrono.h>
#include <spdlog/details/log_msg_buffer.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/terminal.h"

namespace lshformer {
namespace {

std::string before_options_of_warnings;  // set once, before there are threads

std::string UtcTime(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()) % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     (milliseconds.count() + 1000) % 1000);
}

// One line a message whatever the message holds: input may end up in it.
class LineSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LineSink(LogFormat format) : format_(format) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto level_view = spdlog::level::to_string_view(message.level);
    const std::string_view level(level_view.data(), level_view.size());
    if (format_ == LogFormat::kJson) {
      const Json line{{"time", UtcTime(message.time)}, {"level", level}, {"message", text}};
      WriteStderrLine(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
      WriteStderrLine(fmt::format("lshformer: {}: {}\n", level, Shown(text, kLongestText)));
    }
  }
  void flush_() override {}  // every line is one write(2)

 private:
  static constexpr size_t kLongestText = 2000;
  LogFormat format_;
};

}  // namespace

void WarnText(const std::string& marked) { spdlog::warn(Error(marked).Spelled(before_options_of_warnings)); }

void SetUpLogging(const std::string& level, LogFormat format, std::string_view before_options) {
  before_options_of_warnings = before_options;
  static const std::vector<std::string> kLevels{"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end())
    FailOption("log_level", "expected trace, debug, info, warn, error or off, got \"{}\"{}", Shown(level),
               Suggestion(level, kLevels));
  auto logger = std::make_shared<spdlog::logger>("lshformer", std::make_shared<LineSink>(format));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

class HeldLog::Sink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<spdlog::details::log_msg_buffer> messages;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override { messages.emplace_back(message); }
  void flush_() override {}
};

HeldLog::HeldLog() : logger_(spdlog::default_logger()), exceptions_(std::uncaught_exceptions()) {
  if (logger_->level() < spdlog::level::warn) {
    logger_.reset();
    return;
  }
  sink_ = std::make_shared<Sink>();
  auto holding = std::make_shared<spdlog::logger>("held", sink_);
  holding->set_level(logger_->level());
  spdlog::set_default_logger(std::move(holding));
}

HeldLog::~HeldLog() {
  if (std::uncaught_exceptions() > exceptions_) Drop();
  Release();
}

void HeldLog::Drop() {
  if (sink_ != nullptr) sink_->messages.clear();
}

void HeldLog::Release() {
  if (logger_ == nullptr) return;
  spdlog::set_default_logger(logger_);
  for (const auto& message : sink_->messages)
    for (const auto& sink : logger_->sinks()) sink->log(message);
  logger_.reset();
}

}  // namespace lshformer
