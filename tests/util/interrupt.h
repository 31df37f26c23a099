// Starts a program and sends it a signal at the right moment.
#pragma once
#include <signal.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "util/command.h"

namespace lshformer::testing {

// Sends `signal` as soon as `when` holds (or a minute has passed) and waits for the end. A program that ended before
// has the status of its own.
inline CommandResult InterruptCommand(const std::vector<std::string>& words, int signal,
                                      const std::function<bool()>& when) {
  const TempFolder folder;
  const std::string err = folder.Write("err", "");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_RDWR), STDIN_FILENO);
    dup2(open("/dev/null", O_RDWR), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY), STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  bool ended = false;
  const auto begin = std::chrono::steady_clock::now();
  while (!ended && !when() && std::chrono::steady_clock::now() - begin < std::chrono::minutes(1)) {
    ended = waitpid(child, &status, WNOHANG) == child;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!ended) {
    kill(child, signal);
    waitpid(child, &status, 0);
  }
  CommandResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.err = folder.Read("err");
  return result;
}

}  // namespace lshformer::testing
