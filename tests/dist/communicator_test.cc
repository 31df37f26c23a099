#include "dist/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "dist/processes.h"

namespace lshformer {
namespace {

using ::lshformer::testing::InProcesses;
using ::testing::Each;
using ::testing::HasSubstr;

class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasDistribution()) GTEST_SKIP() << "this build is without distribution";
  }
};

std::shared_ptr<Communicator> Join(int timeout = 60) {
  return JoinProcesses({.join = true, .port = 0, .timeout = timeout});
}

using CommunicatorTest = Processes;

TEST_F(CommunicatorTest, WhatIsSentArrivesInTheOrderOfTheRanks) {
  const std::vector<std::string> said = InProcesses(3, [](int rank) -> std::string {
    const auto all = Join();
    if (all->rank() != rank || all->size() != 3) return "wrong place";
    const std::vector<float> mine{static_cast<float>(rank), static_cast<float>(10 * rank)};
    std::vector<float> gathered(6);
    all->AllGather(std::span<const float>(mine), std::span<float>(gathered));
    if (gathered != std::vector<float>{0, 0, 1, 10, 2, 20}) return "wrong all-gather";
    // To rank r as many as r + 1, each 100 · from + to.
    std::vector<float> send, receive(static_cast<size_t>(3 * (rank + 1))), wanted;
    for (int to = 0; to < 3; ++to)
      send.insert(send.end(), static_cast<size_t>(to) + 1, static_cast<float>(100 * rank + to));
    for (int from = 0; from < 3; ++from)
      wanted.insert(wanted.end(), static_cast<size_t>(rank) + 1, static_cast<float>(100 * from + rank));
    all->AllToAll(send, {1, 2, 3}, receive, std::vector<int64_t>(3, rank + 1));
    if (receive != wanted) return "wrong all-to-all";
    if (all->Broadcast(rank == 1 ? "from one" : "", 1) != "from one") return "wrong broadcast";
    const std::string own(static_cast<size_t>(rank), 'x');
    if (all->AllGather(own) != std::vector<std::string>{"", "x", "xx"}) return "wrong texts";
    if (all->Max(rank == 1 ? 7 : -1) != 7) return "wrong maximum";
    all->Barrier();
    return "good";
  });
  EXPECT_THAT(said, Each("good"));
}

TEST_F(CommunicatorTest, ProcessesMayMeetSeveralTimes) {
  const std::vector<std::string> said = InProcesses(2, [](int) -> std::string {
    for (int i = 0; i < 3; ++i) {
      const auto all = Join();
      if (JoinProcesses({.join = true}) != all) return "two communicators";
      all->Barrier();
    }
    return "good";
  });
  EXPECT_THAT(said, Each("good"));
}

TEST_F(CommunicatorTest, ADeadRankEndsTheOthersAndIsNamed) {
  const std::vector<std::string> said = InProcesses(3, [](int rank) -> std::string {
    const auto all = Join();
    if (rank == 1) kill(getpid(), SIGKILL);
    all->Barrier();
    return "good";
  });
  EXPECT_EQ(said[1], "(signal 9)");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(said[rank], HasSubstr("rank 1 ("));
    EXPECT_THAT(said[rank], HasSubstr("is gone or does not answer"));
  }
}

// Nothing ends its connections: it is there, and says nothing.
TEST_F(CommunicatorTest, ASilentRankIsLostAfterTheTimeout) {
  const std::vector<std::string> said = InProcesses(3, [](int rank) -> std::string {
    const auto all = Join(/*timeout=*/2);
    const std::vector<std::string> processes = all->AllGather(std::to_string(getpid()));
    if (rank == 1) raise(SIGSTOP);
    std::string error = "good";
    try {
      all->Barrier();
    } catch (const Error& failure) {
      error = failure.what();
    }
    if (rank == 0) kill(std::stoi(processes[1]), SIGKILL);
    return error;
  });
  EXPECT_EQ(said[1], "(signal 9)");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(said[rank], HasSubstr("rank 1 ("));
    EXPECT_THAT(said[rank], HasSubstr("is gone or does not answer"));
  }
}

TEST_F(CommunicatorTest, AnErrorOfOneRankEndsTheOthers) {
  const std::vector<std::string> said = InProcesses(3, [](int rank) -> std::string {
    const auto all = Join();
    if (rank == 0) throw Error("no more disk");
    all->Barrier();
    return "good";
  });
  EXPECT_EQ(said[0], "no more disk");
  for (const int rank : {1, 2}) EXPECT_THAT(said[rank], HasSubstr("rank 0 ("));
  for (const int rank : {1, 2}) EXPECT_THAT(said[rank], HasSubstr("stopped, as its own error says"));
}

TEST_F(CommunicatorTest, ARankThatNeverArrivesIsNamed) {
  const std::vector<std::string> said = InProcesses(3, [](int rank) -> std::string {
    if (rank == 2) return "never came";
    Join(/*timeout=*/1);
    return "good";
  });
  for (const int rank : {0, 1}) EXPECT_THAT(said[rank], HasSubstr("rank 2 did not arrive"));
}

TEST_F(CommunicatorTest, AnAddressThatDoesNotResolveIsNamed) {
  const std::vector<std::string> said = InProcesses(
      2,
      [](int) -> std::string {
        setenv("MASTER_ADDR", "no.such.host.invalid", 1);
        Join(/*timeout=*/2);
        return "good";
      },
      /*one_host=*/false);
  EXPECT_THAT(said, Each(HasSubstr("MASTER_ADDR no.such.host.invalid: ")));
}

TEST_F(CommunicatorTest, WhatDiffersIsNamed) {
  const std::vector<std::string> said = InProcesses(3, [](int rank) -> std::string {
    const auto all = Join();
    RequireSame(*all, {{"the version", "1"}, {"the data", "abc"}});
    RequireSame(*all, {{"the version", "1"}, {"the data", rank == 2 ? "abd" : "abc"}, {"flags", "f"}});
    return "good";
  });
  EXPECT_THAT(said, Each("the processes do not do the same: the data is abc at rank 0 and abd at rank 2"));
}

// Of this process's sockets those that wait for others: the addresses as the system writes them, and the ports.
std::vector<std::pair<std::string, int>> Listening() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::pair<std::string, int>> found;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line, number, address, peer, state, skipped, inode;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      fields >> number >> address >> peer >> state;
      for (int i = 0; i < 5; ++i) fields >> skipped;
      fields >> inode;
      const size_t colon = address.find(':');
      constexpr const char* kListens = "0A";
      if (state == kListens && own.count(inode) > 0)
        found.emplace_back(address.substr(0, colon), std::stoi(address.substr(colon + 1), nullptr, 16));
    }
  }
  return found;
}

// What Gloo's connections were made at may stay, on the loopback interface.
TEST_F(CommunicatorTest, OnOneMachineNoPortIsOpenToTheNetwork) {
  const std::vector<std::string> said = InProcesses(2, [](int) -> std::string {
    const auto all = Join();
    all->Barrier();
    const auto sockets = Listening();
    constexpr const char* kLoopback = "0100007F";
    for (const auto& [address, port] : sockets)
      if (address != kLoopback) return "listens at " + address;
    all->Barrier();
    return "good";
  });
  EXPECT_THAT(said, Each("good"));
}

TEST_F(CommunicatorTest, AcrossMachinesRankZeroIsMetAtOneOfSixteenPortsOfAnyInterface) {
  const std::vector<std::string> said = InProcesses(
      2,
      [](int rank) -> std::string {
        const auto all = Join();
        all->Barrier();
        const int first = std::stoi(std::getenv("MASTER_PORT")) + 1;
        int open = 0;
        for (const auto& [address, port] : Listening()) {
          if (address.find_first_not_of('0') != std::string::npos) continue;  // of one interface
          if (port < first || port >= first + 16) return fmt::format("listens everywhere at {}", port);
          ++open;
        }
        all->Barrier();
        return open == (rank == 0 ? 1 : 0) ? "good" : fmt::format("{} ports are open to all", open);
      },
      /*one_host=*/false);
  EXPECT_THAT(said, Each("good"));
}

TEST_F(CommunicatorTest, OneProcessMeetsNobody) {
  const std::vector<std::string> said =
      InProcesses(1, [](int) -> std::string { return Join() == nullptr ? "good" : "joined itself"; });
  EXPECT_THAT(said, Each("good"));
}

}  // namespace
}  // namespace lshformer
