// Errors that a user can cause and fix. Each says what was expected, what was found and where, in one line:
//   Fail("{}: tensor \"{}\" has shape {}, expected {}", path, name, got, want);
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lshformer {

// A failure: exit status 1 of the command line.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A wrong flag or argument: exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// SIGINT or SIGTERM stopped the work after its state was saved: exit status 128 + signal.
class Interrupted : public Error {
 public:
  Interrupted(int signal, const std::string& what) : Error(what), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

template <class... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void FailUsage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

// Bytes of an input, fit for an error line: control characters and invalid UTF-8 as \xNN, cut to about `limit` bytes
// with "…" (never inside a character).
std::string Shown(std::string_view bytes, size_t limit = 60);

}  // namespace lshformer
