#include "cli/report_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "jobs/recipes/process.h"
#include "ops/memory.h"

namespace lshformer::cli {
namespace {

constexpr size_t kLineBytes = 300;

// Options are flags here.
std::string TextOf(const Error& error) { return error.Spelled("--"); }

// Where `reproduce` waits for a command's error, to say it with its own; −1: nowhere.
int WaitingForError() {
  const char* value = std::getenv(kErrorDescriptorVariable);
  const int file = value == nullptr ? -1 : std::atoi(value);
  return file > STDERR_FILENO && fcntl(file, F_GETFD) >= 0 ? file : -1;
}

int Report(std::string_view message, int status) {
  const std::string line = ErrorLine(message);
  std::fflush(stdout);  // results first, where both go to one terminal
  if (const int file = WaitingForError();
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()))
    return status;
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return status;
}

// libtorch and oneDNN append a stack trace to the first line.
std::string_view FirstLine(std::string_view text) { return text.substr(0, text.find('\n')); }

bool IsContinuation(char c) { return (c & 0xC0) == 0x80; }

}  // namespace

std::string ErrorLine(std::string_view message) {
  const std::string_view program = "lshformer: ", gap = "…";
  std::string text = Shown(message, std::string::npos);
  const size_t space = kLineBytes - program.size() - 1;
  if (text.size() > space) {
    size_t head = (space - gap.size()) / 2, tail = text.size() - (space - gap.size() - head);
    while (IsContinuation(text[head])) --head;
    while (tail < text.size() && IsContinuation(text[tail])) ++tail;
    text = text.substr(0, head) + std::string(gap) + text.substr(tail);
  }
  return std::string(program) + text + "\n";
}

int ReportError(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted& interrupted) {
    return Report(TextOf(interrupted), 128 + interrupted.signal());
  } catch (const UsageError& wrong) {
    return Report(TextOf(wrong), kWrongUsage);
  } catch (const CLI::Error& wrong) {
    return Report(wrong.what(), kWrongUsage);
  } catch (const Error& failure) {
    return Report(TextOf(failure), kFailure);
  } catch (const std::filesystem::filesystem_error& failure) {
    return Report(fmt::format("{}: {}", Shown(failure.path1().string(), 120), failure.code().message()), kFailure);
  } catch (const Json::exception& failure) {
    constexpr int kInvalidUtf8 = 316;  // nlohmann's number; all else is checked where it is read
    return Report(failure.id == kInvalidUtf8 ? "a name or text that is not UTF-8 cannot be written as JSON"
                                             : "a JSON value is not of the kind that was expected",
                  kFailure);
  } catch (const std::exception& failure) {
    return Report(IsOutOfMemory(failure) ? "out of memory" : FirstLine(failure.what()), kFailure);
  } catch (...) {
    return Report("stopped by an error of unknown kind", kFailure);
  }
}

}  // namespace lshformer::cli
