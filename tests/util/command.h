// Runs a program and keeps what it said and used.
#pragma once
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "util/temp_folder.h"

namespace lshformer::testing {

struct CommandResult {
  int status = -1;  // exit status, or 128 + signal
  std::string out, err;
  double max_resident_mb = 0;  // at least the test program's own size when it started the command
};

// `words` begins with the program's path; stdin is the file `input`.
inline CommandResult RunCommand(const std::vector<std::string>& words, const std::string& input = "/dev/null") {
  const TempFolder folder;
  const std::string out = folder.Write("out", ""), err = folder.Write("err", "");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(input.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY), STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  CommandResult result;
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = folder.Read("out");
  result.err = folder.Read("err");
  result.max_resident_mb = static_cast<double>(usage.ru_maxrss) / 1024;
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
