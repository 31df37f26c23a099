// `lshformer serve` as a process of its own.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "util/temp_folder.h"

namespace lshformer::testing {

class ServerProcess {
 public:
  // `words` behind "serve --port 0"; `environment` in front of the program's. Waits until it listens.
  explicit ServerProcess(const std::vector<std::string>& words, const std::vector<std::string>& environment = {})
      : err_(folder_.Write("err", "")) {
    std::vector<std::string> all{"/usr/bin/env"};
    all.insert(all.end(), environment.begin(), environment.end());
    all.insert(all.end(), {LSHFORMER_BINARY, "serve", "--port", "0"});
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    child_ = fork();
    if (child_ == 0) {
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      dup2(open(err_.c_str(), O_WRONLY), STDERR_FILENO);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    char c = 0;
    while (read(ends[0], &c, 1) == 1 && c != '\n') line_ += c;
    close(ends[0]);
    const size_t colon = line_.rfind(':');
    port_ = colon == std::string::npos ? 0 : std::atoi(line_.c_str() + colon + 1);
    EXPECT_GT(port_, 0) << line_ << Errors();
  }
  ~ServerProcess() {
    if (child_ > 0) kill(child_, SIGKILL);
    Wait();
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t pid() const { return child_; }
  void Signal(int signal) const { kill(child_, signal); }
  // Its exit status, or 128 + signal.
  int Wait() {
    if (child_ > 0) {
      int status = 0;
      waitpid(child_, &status, 0);
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      child_ = 0;
    }
    return status_;
  }
  int port() const { return port_; }
  const std::string& line() const { return line_; }
  std::string Errors() const { return folder_.Read("err"); }

 private:
  TempFolder folder_;
  std::string err_, line_;
  pid_t child_ = 0;
  int port_ = 0, status_ = -1;
};

}  // namespace lshformer::testing
