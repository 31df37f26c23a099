#include "dist/place.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "util/errors.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using Variables = std::map<std::string, std::string>;

Environment From(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

struct Case {
  std::string what;
  Variables variables;
  int rank, size, local_rank, local_size;
  bool one_host;
  std::string address;
  int port;
};

TEST(Place, IsReadFromTheEnvironmentOfEachLauncher) {
  const std::vector<Case> cases{
      {"nothing", {}, 0, 1, 0, 0, true, "", 0},
      {"torchrun, one machine",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "h"},
        {"MASTER_PORT", "29500"}},
       1,
       2,
       1,
       2,
       true,
       "h",
       29500},
      {"torchrun, two machines",
       {{"RANK", "3"},
        {"WORLD_SIZE", "4"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "h"},
        {"MASTER_PORT", "29500"}},
       3,
       4,
       1,
       2,
       false,
       "h",
       29500},
      {"by hand, one machine",
       {{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1234"}},
       2,
       3,
       2,
       3,
       true,
       "127.0.0.1",
       1234},
      {"by hand, several machines",
       {{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "1234"}},
       2,
       3,
       0,
       0,
       false,
       "10.0.0.1",
       1234},
      {"Open MPI, one machine",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       1,
       2,
       1,
       2,
       true,
       "",
       0},
      {"Open MPI, two machines",
       {{"OMPI_COMM_WORLD_RANK", "2"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"MASTER_ADDR", "node1"}},
       2,
       4,
       0,
       2,
       false,
       "node1",
       0},
      {"srun, one machine",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_NNODES", "1"},
        {"SLURM_JOB_ID", "7"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_JOB_NODELIST", "n[01-02]"}},
       1,
       2,
       1,
       2,
       true,
       "n01",
       0},
      {"srun, two machines",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_NNODES", "2"},
        {"SLURM_JOB_ID", "7"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_JOB_NODELIST", "n[01-02]"}},
       1,
       2,
       0,
       1,
       false,
       "n01",
       0},
      {"in a batch script without srun",
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "7"}},
       0,
       1,
       0,
       0,
       true,
       "",
       0},
      {"torchrun inside srun",
       {{"RANK", "1"},
        {"WORLD_SIZE", "4"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "n01"},
        {"MASTER_PORT", "29500"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_STEP_ID", "0"}},
       1,
       4,
       1,
       2,
       false,
       "n01",
       29500}};
  for (const Case& c : cases) {
    const Place place = PlaceFrom(From(c.variables));
    EXPECT_EQ(place.rank, c.rank) << c.what;
    EXPECT_EQ(place.size, c.size) << c.what;
    EXPECT_EQ(place.local_rank, c.local_rank) << c.what;
    EXPECT_EQ(place.local_size, c.local_size) << c.what;
    EXPECT_EQ(place.one_host, c.one_host) << c.what;
    EXPECT_EQ(place.address, c.address) << c.what;
    EXPECT_EQ(place.port, c.port) << c.what;
  }
}

TEST(Place, WhatIsWrongIsNamed) {
  const auto error = [](Variables variables) { return ErrorOf([&] { PlaceFrom(From(std::move(variables))); }); };
  EXPECT_EQ(error({{"RANK", "0"}}),
            "RANK is set, WORLD_SIZE is not: a process needs both to know its place among the others");
  EXPECT_EQ(error({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "1"}}),
            "RANK: expected a number below 2 (WORLD_SIZE), got 2");
  EXPECT_EQ(error({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), "RANK: expected a number from 0 to 65536, got \"one\"");
  EXPECT_EQ(error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}}),
            "MASTER_ADDR is set, MASTER_PORT is not: a process needs both to know its place among the others");
  EXPECT_EQ(error({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
            "WORLD_SIZE is 2, but MASTER_ADDR and MASTER_PORT are not set: the processes could not meet");
  EXPECT_EQ(error({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
            "the processes are on several machines: MASTER_ADDR must name that of rank 0 (mpirun -x MASTER_ADDR=HOST)");
  EXPECT_EQ(error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "0"}}),
            "MASTER_PORT: expected a number from 1 to 65535, got \"0\"");
}

TEST(Place, TheFirstHostOfAList) {
  for (const auto& [list, first] : std::vector<std::pair<std::string, std::string>>{
           {"n1", "n1"}, {"n1,n2", "n1"}, {"n[07-09,12],m1", "n07"}, {"n[3]", "n3"}, {"a,n[1-2]", "a"}, {"", ""}})
    EXPECT_EQ(FirstHost(list), first) << list;
}

TEST(Place, ThreadsAreTheCoresOverTheProcessesOfAMachine) {
  Place place;
  EXPECT_EQ(ThreadsOf(place, 8, false), 8);
  place.local_size = 3;
  EXPECT_EQ(ThreadsOf(place, 8, false), 2);
  EXPECT_EQ(ThreadsOf(place, 2, false), 1);
  EXPECT_EQ(ThreadsOf(place, 2, true), 2) << "the launcher has cut the machine already";
}

}  // namespace
}  // namespace lshformer
