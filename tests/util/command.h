// Runs a program and keeps what it said and used.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "util/temp_folder.h"

namespace lshformer::testing {

struct CommandResult {
  int status = -1;  // exit status, or 128 + signal
  std::string out, err;
  double max_resident_mb = 0;  // at least the size of the process that started the command
};

using Streams = std::array<int, 3>;  // descriptors: what is read, then the two that are written

struct CommandEnd {
  int status = -1;  // as wait4 has it
  rusage usage{};
};

// Waits for a child, whatever signals come.
inline CommandEnd EndOf(pid_t child) {
  CommandEnd end;
  if (child < 0) return end;  // there is none, and wait4 would wait for any other
  while (wait4(child, &end.status, 0, &end.usage) < 0 && errno == EINTR) {
  }
  return end;
}

inline void UseStreams(const Streams& streams) {
  for (int i = 0; i < 3; ++i)
    if (dup2(streams[static_cast<size_t>(i)], i) == streams[static_cast<size_t>(i)]) fcntl(i, F_SETFD, 0);
}

inline CommandEnd Execute(const std::vector<std::string>& words, const Streams& streams) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    UseStreams(streams);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  return EndOf(child);
}

// Set by a test program that has another way for some commands (tests/cli/loaded_program.cc); nothing: it has not for
// this.
inline std::optional<CommandEnd> (*run_loaded)(const std::vector<std::string>& words, const Streams& streams) = nullptr;

// `words` begins with the program's path; stdin is the file `input`.
inline CommandResult RunCommand(const std::vector<std::string>& words, const std::string& input = "/dev/null") {
  const TempFolder folder;
  const std::string out = folder.Write("out", ""), err = folder.Write("err", "");
  const Streams streams{open(input.c_str(), O_RDONLY | O_CLOEXEC), open(out.c_str(), O_WRONLY | O_CLOEXEC),
                        open(err.c_str(), O_WRONLY | O_CLOEXEC)};
  for (const int stream : streams) EXPECT_GE(stream, 0) << std::strerror(errno) << ": " << input;
  std::optional<CommandEnd> end;
  if (run_loaded != nullptr) end = run_loaded(words, streams);
  if (!end) end = Execute(words, streams);
  for (const int stream : streams) close(stream);
  CommandResult result;
  result.status = WIFEXITED(end->status) ? WEXITSTATUS(end->status) : 128 + WTERMSIG(end->status);
  result.out = folder.Read("out");
  result.err = folder.Read("err");
  result.max_resident_mb = static_cast<double>(end->usage.ru_maxrss) / 1024;
  return result;
}

// All at once, results in order.
inline std::vector<CommandResult> RunTogether(const std::vector<std::vector<std::string>>& commands) {
  std::vector<std::future<CommandResult>> running;
  for (const std::vector<std::string>& words : commands)
    running.push_back(std::async(std::launch::async, [words] { return RunCommand(words); }));
  std::vector<CommandResult> results;
  for (auto& one : running) results.push_back(one.get());
  return results;
}

}  // namespace lshformer::testing
