// Several processes that run a piece of a test, each with its place in the environment.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "dist/communicator.h"

namespace lshformer::testing {

// Of this test and no other that runs at the moment.
inline int PortOfTest() {
  static int calls = 0;
  return 20000 + (getpid() * 8 + 2 * calls++) % 20000;
}

// one_host: false: as if each were on a machine of its own, all of which are this one.
inline void SetPlace(int rank, int size, int port, bool one_host = true) {
  if (!one_host) {
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
  }
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
}

// What each process said in the end, [ranks]: what `body` returns, the Error that it throws, or "(signal 9)".
inline std::vector<std::string> InProcesses(int size, const std::function<std::string(int rank)>& body,
                                            bool one_host = true) {
  const int port = PortOfTest();
  std::vector<pid_t> children;
  std::vector<int> ends;
  for (int rank = 0; rank < size; ++rank) {
    int pipes[2];
    if (pipe(pipes) != 0) return {};
    const pid_t child = fork();
    if (child == 0) {
      close(pipes[0]);
      SetPlace(rank, size, port, one_host);
      std::string said;
      try {
        said = body(rank);
      } catch (const std::exception& error) {
        said = error.what();
      }
      [[maybe_unused]] const auto written = write(pipes[1], said.data(), said.size());
      _exit(0);
    }
    close(pipes[1]);
    children.push_back(child);
    ends.push_back(pipes[0]);
  }
  std::vector<std::string> said;
  for (int rank = 0; rank < size; ++rank) {
    std::string text;
    char some[512];
    for (ssize_t got; (got = read(ends[rank], some, sizeof(some))) > 0;) text.append(some, static_cast<size_t>(got));
    close(ends[rank]);
    int status = 0;
    waitpid(children[rank], &status, 0);
    said.push_back(WIFSIGNALED(status) ? "(signal " + std::to_string(WTERMSIG(status)) + ")" : text);
  }
  return said;
}

}  // namespace lshformer::testing
