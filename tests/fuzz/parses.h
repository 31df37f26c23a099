// What every parser promises of every input: a value, or an Error of one short line of valid UTF-8.
#pragma once
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lshformer::testing {

inline void Check(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "broken promise: " << what << "\n";
  std::abort();
}

// Whether `parse` returned; anything but an Error that it throws ends the fuzzer.
template <class Action>
bool Parses(const Action& parse) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    Check(message.size() <= 300, "an error is at most 300 bytes: " + message);
    // Shown escapes all that is not harmless text on one line.
    Check(Shown(message, 1000) == message, "an error is one line of valid UTF-8: " + message);
    return false;
  }
}

}  // namespace lshformer::testing
