// main() of the command line's tests. Most of a short command's second is the loading of libtorch, and the tests run a
// thousand of them. So before any test begins a process is forked off that has it loaded and does nothing else than to
// fork once more for every command that RunCommand is given; what is forked runs the command as main.cc does. Commands
// that start the program themselves or ask where it lies, and all that are run in another environment or folder or by
// other means than RunCommand (signals, limits, launchers: start_test.cc and others), run the program's file.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/signals.h"
#include "cli/program.h"
#include "util/command.h"

namespace lshformer::cli {
namespace {

using testing::CommandEnd;
using testing::Streams;

constexpr size_t kMostBytes = 1 << 16;  // of a command's words
constexpr int kReply = 3;               // the descriptor behind the streams'

int loaded = -1;  // the socket at whose other end the loaded process is

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  std::sort(variables.begin(), variables.end());
  return variables;
}
std::vector<std::string> environment_at_start;
std::filesystem::path folder_at_start;

// The kernel's message of `bytes` with four descriptors.
struct Message {
  explicit Message(std::string& bytes) : bytes{bytes.data(), bytes.size()} {
    header.msg_iov = &this->bytes;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  iovec bytes;
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr header{};
};

// Runs a command in this process, which ends with it.
[[noreturn]] void RunHere(std::string text) {
  std::vector<char*> words;
  for (size_t begin = 0; begin < text.size(); begin += std::strlen(&text[begin]) + 1) words.push_back(&text[begin]);
  words.push_back(nullptr);
  InstallSignalHandlers();
  RunProgram(static_cast<int>(words.size()) - 1, words.data());
}

// Commands come until the test program's end of the socket closes: words, each with a zero behind it, and the
// descriptors.
[[noreturn]] void Serve(int socket) {
  // As lshformer does before it becomes lshformer-models.
  setenv("GLOG_minloglevel", "3", 0);
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  signal(SIGCHLD, SIG_IGN);  // nobody waits for those that wait for commands
  std::string text(kMostBytes, '\0');
  for (;;) {
    Message message(text);
    const ssize_t got = recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(0);
    int descriptors[4];
    std::memcpy(descriptors, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof(descriptors));
    if (fork() == 0) {
      signal(SIGCHLD, SIG_DFL);
      close(socket);
      const pid_t child = fork();
      if (child == 0) {
        close(descriptors[kReply]);
        testing::UseStreams({descriptors[0], descriptors[1], descriptors[2]});
        for (int i = 0; i < kReply; ++i) close(descriptors[i]);
        RunHere(text.substr(0, static_cast<size_t>(got)));
      }
      const CommandEnd end = testing::EndOf(child);
      _exit(write(descriptors[kReply], &end, sizeof(end)) == sizeof(end) ? 0 : 1);
    }
    for (const int descriptor : descriptors) close(descriptor);
  }
}

bool RunsLoaded(const std::vector<std::string>& words) {
  static constexpr std::string_view kCommands[] = {"convert", "evaluate", "inspect", "info",
                                                   "predict", "pretrain", "search",  "train"};
  return words.size() > 1 && words[0] == LSHFORMER_BINARY && std::ranges::count(kCommands, words[1]) > 0 &&
         Environment() == environment_at_start && std::filesystem::current_path() == folder_at_start;
}

std::optional<CommandEnd> RunLoaded(const std::vector<std::string>& words, const Streams& streams) {
  if (!RunsLoaded(words)) return std::nullopt;
  std::string text;
  for (const std::string& word : words) text += word + '\0';
  if (text.size() > kMostBytes) return std::nullopt;
  int reply[2];
  if (pipe2(reply, O_CLOEXEC) != 0) return std::nullopt;
  const int descriptors[4] = {streams[0], streams[1], streams[2], reply[1]};
  Message message(text);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  *rights = {CMSG_LEN(sizeof(descriptors)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(rights), descriptors, sizeof(descriptors));
  ssize_t done = 0;
  while ((done = sendmsg(loaded, &message.header, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  EXPECT_EQ(done, static_cast<ssize_t>(text.size())) << "to the loaded process: " << std::strerror(errno);
  close(reply[1]);
  CommandEnd end;
  while ((done = read(reply[0], &end, sizeof(end))) < 0 && errno == EINTR) {
  }
  EXPECT_EQ(done, static_cast<ssize_t>(sizeof(end))) << "the loaded process, or its child, is gone";
  close(reply[0]);
  return end;
}

void StartLoaded() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  if (fork() == 0) {
    close(ends[0]);
    Serve(ends[1]);
  }
  close(ends[1]);
  loaded = ends[0];
  environment_at_start = Environment();
  folder_at_start = std::filesystem::current_path();
  testing::run_loaded = RunLoaded;
}

}  // namespace
}  // namespace lshformer::cli

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests)) lshformer::cli::StartLoaded();
  return RUN_ALL_TESTS();
}
