// Errors that a user can cause and fix. Each says what was expected, what was found and where, in one line:
//   Fail("{}: tensor \"{}\" has shape {}, expected {}", path, name, got, want);
//
// An option that an error is about goes by the name of its row in the table, Hugging Face's where those have one.
// Whoever prints the error knows how its users spell options, and says so with Error::Spelled: flags for the command
// line.
//   FailOption("max_seq_length", "expected {} to {}, got {}", low, high, options.max_seq_length);
//   Fail("{}: question has no answer; {} allows that", where, OptionName{"version_2_with_negative"});
#pragma once
#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lshformer {

// The name of an option inside an error's text.
struct OptionName {
  std::string_view name;
};
// Stands before such names until the error is printed: a code point that Unicode keeps for use inside programs.
inline constexpr std::string_view kOptionMark = "\uFDD0";

}  // namespace lshformer

template <>
struct fmt::formatter<lshformer::OptionName> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const lshformer::OptionName& option, Context& context) const {
    const auto name = std::copy(lshformer::kOptionMark.begin(), lshformer::kOptionMark.end(), context.out());
    return std::copy(option.name.begin(), option.name.end(), name);
  }
};

namespace lshformer {

// The same as a text of its own: a place in an error, a reason to be put into one.
inline std::string Marked(std::string_view option) { return fmt::format("{}", OptionName{option}); }

// A failure: exit status 1 of the command line. what() has the bare names of options.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
  // what(), with `before` in front of every OptionName.
  std::string Spelled(std::string_view before) const;

 private:
  std::string text_;  // with the marks
};

// A wrong flag or argument: exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A wrong value of the option `name`, which begins the message: "max_seq_length: expected 5 to 512, got 4".
class OptionError : public UsageError {
 public:
  OptionError(std::string_view name, std::string_view message);
  const std::string& name() const { return name_; }

 private:
  std::string name_;
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

template <class... Args>
[[noreturn]] void FailOption(std::string_view name, fmt::format_string<Args...> format, Args&&... args) {
  throw OptionError(name, fmt::format(format, std::forward<Args>(args)...));
}

// Bytes of an input, fit for an error line: control characters and invalid UTF-8 as \xNN, cut to about `limit` bytes
// with "…" (never inside a character).
std::string Shown(std::string_view bytes, size_t limit = 60);

}  // namespace lshformer
