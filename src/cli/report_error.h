// Failures as the user sees them: one line on stderr and an exit status.
#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace lshformer::cli {

constexpr int kSuccess = 0, kFailure = 1, kWrongUsage = 2;  // signals: 128 + number

// "lshformer: message\n": valid UTF-8 on one line, control characters and foreign bytes escaped, at most 300 bytes (the
// middle of a longer message gives way: its beginning names the place, its end what was expected).
std::string ErrorLine(std::string_view message);

// Prints the error's line and returns its exit status: 2 for a UsageError and for CLI11's errors, 128 + signal for
// Interrupted, else 1.
int ReportError(std::exception_ptr error);

}  // namespace lshformer::cli
