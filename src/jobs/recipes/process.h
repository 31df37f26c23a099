// A command of this program as a process of its own, which does not outlive whoever waits for it.
#pragma once
#include <string>
#include <vector>

namespace lshformer {

// Set for such commands: the number of an open file for the line that says why one failed, in place of stderr, where
// the program that waits for it says the same.
inline constexpr const char* kErrorDescriptorVariable = "LSHFORMER_ERROR_DESCRIPTOR";

struct Ended {
  int status = 0;
  std::string error;  // the line that the command failed with, without "lshformer: "
};

// Runs a program with its standard output in a file. SIGINT and SIGTERM are handed on; killed, this process takes its
// command along. Error where it cannot be started.
Ended RunProcess(const std::vector<std::string>& words, const std::string& log);

}  // namespace lshformer
