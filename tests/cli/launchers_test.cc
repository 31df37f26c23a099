// The launchers that start several processes, as users call them, and what a launcher cannot help: a machine that falls
// silent, a full disk. Each where it is there, skipped with a reason where it is not.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <sstream>

#include "cli/training_run.h"
#include "dist/communicator.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::RunTogether;
using ::testing::HasSubstr;

// Where a program is: in the variable, or on PATH; "": nowhere.
std::string Program(const std::string& name, const char* variable = nullptr) {
  const char* named = variable == nullptr ? nullptr : std::getenv(variable);
  if (named != nullptr) return named;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  for (const char* folder : {"/usr/sbin/", "/sbin/"})
    if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
  return "";
}

int FreePort() {
  static int calls = 0;
  return 20000 + (getpid() * 64 + 20 * calls++) % 20000;
}

using Command = std::vector<std::string>;

Command operator+(Command words, const Command& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class LaunchersTest : public TrainingRunTest {
 protected:
  void SetUp() override {
    if (!HasDistribution()) GTEST_SKIP() << "this build is without distribution";
    TrainingRunTest::SetUp();
  }
  // The run whose weights a launcher's must be.
  Command Job(const std::string& output, const std::vector<std::string>& more = {}) const {
    return Words(
        "pretrain",
        {"--train_file", folder_ / "text.txt", "--output_dir", folder_ / output, "--per_device_train_batch_size", "2",
         "--total_batch_size", "8", "--max_steps", "4", "--dist_timeout", "60"},
        more);
  }

  void ExpectWeightsOfOneProcess(const std::string& run) {
    Succeeds(Job("alone"));
    EXPECT_EQ(Weights(run), Weights("alone"));
  }
  static void ExpectSuccess(const std::vector<CommandResult>& results) {
    for (const CommandResult& result : results) EXPECT_EQ(result.status, 0) << result.err;
  }
};

TEST_F(LaunchersTest, Torchrun) {
  const std::string torchrun = Program("torchrun", "LSHFORMER_TORCHRUN");
  if (torchrun.empty()) GTEST_SKIP() << "there is no torchrun (LSHFORMER_TORCHRUN names one)";
  const int port = FreePort();
  const CommandResult fixed = RunCommand(Command{torchrun, "--no-python", "--nproc-per-node", "2", "--master-addr",
                                                 "127.0.0.1", "--master-port", std::to_string(port)} +
                                         Job("fixed"));
  EXPECT_EQ(fixed.status, 0) << fixed.err;
  ExpectWeightsOfOneProcess("fixed");
  const CommandResult c10d =
      RunCommand(Command{torchrun, "--no-python", "--nnodes", "1", "--nproc-per-node", "3", "--rdzv-backend", "c10d",
                         "--rdzv-endpoint", fmt::format("127.0.0.1:{}", port + 1), "--rdzv-id", "job"} +
                 Job("c10d"));
  EXPECT_EQ(c10d.status, 0) << c10d.err;
  EXPECT_EQ(Weights("c10d"), Weights("alone"));
}

// Two agents, as on two machines: their processes meet at a port, not in a folder.
TEST_F(LaunchersTest, TorchrunOfTwoNodes) {
  const std::string torchrun = Program("torchrun", "LSHFORMER_TORCHRUN");
  if (torchrun.empty()) GTEST_SKIP() << "there is no torchrun (LSHFORMER_TORCHRUN names one)";
  const std::string port = std::to_string(FreePort());
  std::vector<Command> nodes;
  for (const char* node : {"0", "1"})
    nodes.push_back(Command{torchrun, "--no-python", "--nnodes", "2", "--node-rank", node, "--nproc-per-node", "1",
                            "--master-addr", "127.0.0.1", "--master-port", port} +
                    Job("nodes"));
  ExpectSuccess(RunTogether(nodes));
  ExpectWeightsOfOneProcess("nodes");
}

TEST_F(LaunchersTest, OpenMpi) {
  const std::string mpirun = Program("mpirun");
  if (mpirun.empty()) GTEST_SKIP() << "there is no mpirun";
  const CommandResult result =
      RunCommand(Command{mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "3"} + Job("mpi"));
  EXPECT_EQ(result.status, 0) << result.err;
  ExpectWeightsOfOneProcess("mpi");
}

// What srun sets, on one node and as if on two.
TEST_F(LaunchersTest, VariablesOfSlurm) {
  for (const int nodes : {1, 2}) {
    const std::string port = std::to_string(FreePort());
    std::vector<Command> tasks;
    for (int task = 0; task < 2; ++task)
      tasks.push_back(Command{"/usr/bin/env", fmt::format("SLURM_PROCID={}", task), "SLURM_NTASKS=2",
                              fmt::format("SLURM_LOCALID={}", nodes == 1 ? task : 0),
                              fmt::format("SLURM_NNODES={}", nodes), fmt::format("SLURM_NTASKS_PER_NODE={}", 2 / nodes),
                              fmt::format("SLURM_JOB_ID={}", getpid()), "SLURM_STEP_ID=0",
                              "SLURM_JOB_NODELIST=localhost"} +
                      Job(fmt::format("slurm-{}", nodes), {"--dist_port", port}));
    ExpectSuccess(RunTogether(tasks));
    if (nodes == 1) Succeeds(Job("alone"));
    EXPECT_EQ(Weights(fmt::format("slurm-{}", nodes)), Weights("alone")) << nodes << " nodes";
  }
}

// Two network namespaces with a cable between them: two machines, as far as sockets can tell.
class TwoHosts : public LaunchersTest {
 protected:
  void SetUp() override {
    LaunchersTest::SetUp();
    if (IsSkipped()) return;
    ip_ = Program("ip");
    if (ip_.empty()) GTEST_SKIP() << "there is no ip";
    if (getuid() != 0) GTEST_SKIP() << "network namespaces need root";
    for (int host = 0; host < 2; ++host) names_.push_back(fmt::format("lshf{}{}", getpid(), host));
    const std::string a = fmt::format("lf{}a", getpid() % 100000), b = fmt::format("lf{}b", getpid() % 100000);
    bool made = Ip({"netns", "add", names_[0]}) && Ip({"netns", "add", names_[1]}) &&
                Ip({"link", "add", a, "type", "veth", "peer", "name", b});
    for (int host = 0; host < 2 && made; ++host) {
      const std::string& name = names_[static_cast<size_t>(host)];
      const std::string cable = host == 0 ? a : b;
      made = Ip({"link", "set", cable, "netns", name}) &&
             Ip({"-n", name, "addr", "add", fmt::format("10.77.0.{}/24", host + 1), "dev", cable}) &&
             Ip({"-n", name, "link", "set", cable, "up"}) && Ip({"-n", name, "link", "set", "lo", "up"});
    }
    cable_ = b;
    if (made) return;
    const std::string why = why_;
    Ip({"link", "del", a});
    GTEST_SKIP() << "no network namespaces here: " << why;
  }
  void TearDown() override {
    for (const std::string& name : names_) Ip({"netns", "del", name});
  }

  bool Ip(Command words) {
    words.insert(words.begin(), ip_);
    const CommandResult result = RunCommand(words);
    if (result.status != 0) why_ = result.err;
    return result.status == 0;
  }
  // The job's process on a host.
  Command On(int host, const Command& job) const {
    return Command{ip_,
                   "netns",
                   "exec",
                   names_[static_cast<size_t>(host)],
                   "/usr/bin/env",
                   fmt::format("RANK={}", host),
                   "WORLD_SIZE=2",
                   "LOCAL_RANK=0",
                   "LOCAL_WORLD_SIZE=1",
                   "MASTER_ADDR=10.77.0.1",
                   "MASTER_PORT=29500"} +
           job;
  }

  std::string ip_, cable_, why_;
  std::vector<std::string> names_;
};

TEST_F(TwoHosts, MakeTheWeightsOfOne) {
  ExpectSuccess(RunTogether({On(0, Job("hosts")), On(1, Job("hosts"))}));
  ExpectWeightsOfOneProcess("hosts");
}

// The cable is pulled: no packet tells that anybody is gone.
TEST_F(TwoHosts, OneThatFallsSilentIsLostAfterTheTimeout) {
  const Command job =
      Job("silent", {"--max_steps", "1000000", "--save_steps", "20", "--save_total_limit", "1", "--dist_timeout", "3"});
  std::future<std::vector<CommandResult>> running = std::async(std::launch::async, [&] {
    return RunTogether({On(0, job), On(1, job)});
  });
  const auto wait = [&](auto until) {
    return running.wait_for(std::chrono::milliseconds(20)) == std::future_status::ready || until();
  };
  while (!wait([&] { return !NewestCheckpoint(folder_ / "silent").empty(); })) {
  }
  Ip({"-n", names_[1], "link", "set", cable_, "down"});
  const std::vector<CommandResult> results = running.get();
  EXPECT_EQ(results[0].status, 1);
  EXPECT_THAT(results[0].err, HasSubstr("rank 1 ("));
  EXPECT_THAT(results[0].err, HasSubstr("is gone or does not answer"));
  EXPECT_EQ(results[1].status, 1);
  EXPECT_THAT(results[1].err, HasSubstr("rank 0 ("));
}

// Rank 0 alone writes; its error is its own, and ends the others.
TEST_F(LaunchersTest, AFullDiskOfRankZeroEndsAll) {
  const std::string unshare = Program("unshare");
  if (unshare.empty()) GTEST_SKIP() << "there is no unshare";
  Command own{unshare, "-m"};
  if (getuid() != 0) own.emplace_back("-r");
  folder_.Write("full/is", "");
  const std::string mount = fmt::format("mount -t tmpfs -o size=64k none '{}' && exec \"$0\" \"$@\"", folder_ / "full");
  own = own + Command{"/bin/sh", "-c", mount};
  if (RunCommand(own + Command{"/bin/true"}).status != 0) GTEST_SKIP() << "no file system can be mounted here";
  const std::string port = std::to_string(FreePort());
  const auto rank = [&](const char* number) {
    return Command{"/usr/bin/env", std::string("RANK=") + number, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                   "MASTER_PORT=" + port};
  };
  const Command job = Job("full", {"--save_steps", "2"});
  const std::vector<CommandResult> results = RunTogether({own + rank("0") + job, rank("1") + job});
  EXPECT_EQ(results[0].status, 1);
  EXPECT_THAT(results[0].err, HasSubstr("cannot write: disk full"));
  EXPECT_EQ(results[1].status, 1);
  EXPECT_THAT(results[1].err, HasSubstr("rank 0 ("));
  EXPECT_THAT(results[1].err, HasSubstr("stopped, as its own error says"));
  for (const CommandResult& result : results)
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << "one line: " << result.err;
}

}  // namespace
}  // namespace lshformer::cli
