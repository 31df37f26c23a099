#include "jobs/recipes/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/signals.h"

namespace lshformer {
namespace {

// Waits for a process; a signal that asks this one to stop is handed on, once.
int WaitFor(pid_t child) {
  int status = 0;
  bool told = false;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended < 0) Fail("waiting for a command: {}", std::strerror(errno));
    if (ended > 0) break;
    if (StopSignal() != 0 && !told) kill(child, StopSignal());
    told = StopSignal() != 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What a command that failed has written for this one.
std::string ErrorIn(int file) {
  std::string line(512, '\0');
  const ssize_t size = pread(file, line.data(), line.size(), 0);
  line.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  line = line.substr(0, line.find('\n'));
  constexpr std::string_view kProgram = "lshformer: ";
  return line.starts_with(kProgram) ? line.substr(kProgram.size()) : line;
}

// The environment with a place for the child's error.
std::vector<std::string> EnvironmentWith(int error) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  variables.push_back(fmt::format("{}={}", kErrorDescriptorVariable, error));
  return variables;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Ended RunProcess(const std::vector<std::string>& words, const std::string& log) {
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output < 0) Fail("{}: {}", log, std::strerror(errno));
  const int error = memfd_create("error", 0);  // the child inherits it; without one its line goes to stderr
  const std::vector<std::string> variables = EnvironmentWith(error);
  const std::vector<char*> arguments = Pointers(words), environment = Pointers(variables);
  // A signal that is handed on waits until the new program can heed it; this one's handler would swallow it.
  HoldStopSignals(true);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    setpgid(0, 0);  // Ctrl-C reaches this process alone, which hands it on: two would end the child at once
    // Killed, or gone with its terminal, this process hands nothing on: then the child, too, saves its state and ends.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    dup2(output, STDOUT_FILENO);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  HoldStopSignals(false);
  close(output);
  if (child < 0) Fail("cannot start a command: {}", std::strerror(errno));
  Ended ended{WaitFor(child), ""};
  ended.error = ErrorIn(error);
  close(error);
  return ended;
}

}  // namespace lshformer
