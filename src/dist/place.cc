#include "dist/place.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/parallel.h"

namespace lshformer {
namespace {

constexpr int kMostProcesses = 1 << 16;

int Number(const char* name, const std::string& text, int low, int high) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low || number > high)
    Fail("{}: expected a number from {} to {}, got \"{}\"", name, low, high, Shown(text));
  return number;
}

int Number(const Environment& environment, const char* name, int low, int high, int otherwise) {
  const auto text = environment(name);
  return text ? Number(name, *text, low, high) : otherwise;
}

bool IsLoopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

// Two variables that say nothing without each other.
bool BothOrNone(const Environment& environment, const char* first, const char* second) {
  const bool has_first = environment(first).has_value(), has_second = environment(second).has_value();
  if (has_first != has_second)
    Fail("{} is set, {} is not: a process needs both to know its place among the others", has_first ? first : second,
         has_first ? second : first);
  return has_first;
}

struct Names {
  const char *rank, *size, *local_rank, *local_size;
};

void ReadRanks(const Environment& environment, const Names& names, Place& place) {
  place.size = Number(environment, names.size, 1, kMostProcesses, 1);
  const std::string rank = *environment(names.rank);
  place.rank = Number(names.rank, rank, 0, kMostProcesses);
  if (place.rank >= place.size)
    Fail("{}: expected a number below {} ({}), got {}", names.rank, place.size, names.size, place.rank);
  place.local_size = Number(environment, names.local_size, 1, place.size, 0);
  place.local_rank = Number(environment, names.local_rank, 0, kMostProcesses, 0);
  if (place.local_size > 0 && place.local_rank >= place.local_size)
    Fail("{}: expected a number below {} ({}), got {}", names.local_rank, place.local_size, names.local_size,
         place.local_rank);
}

std::string Joined(const Environment& environment, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) text += environment(name).value_or("") + "/";
  return text;
}

Place OfTorch(const Environment& environment) {
  Place place;
  place.launcher = Launcher::kTorch;
  ReadRanks(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, place);
  const bool has_address = BothOrNone(environment, "MASTER_ADDR", "MASTER_PORT");
  place.one_host = place.local_size > 0 ? place.local_size == place.size
                                        : has_address && IsLoopback(environment("MASTER_ADDR").value_or(""));
  if (place.size > 1 && !has_address)
    Fail("WORLD_SIZE is {}, but MASTER_ADDR and MASTER_PORT are not set: the processes could not meet", place.size);
  if (place.one_host && place.local_size == 0) {
    place.local_size = place.size;
    place.local_rank = place.rank;
  }
  place.job = Joined(environment, {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"});
  return place;
}

Place OfOpenMpi(const Environment& environment) {
  Place place;
  place.launcher = Launcher::kOpenMpi;
  ReadRanks(
      environment,
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      place);
  place.one_host = place.local_size == place.size;
  place.job = Joined(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  return place;
}

Place OfSlurm(const Environment& environment) {
  Place place;
  place.launcher = Launcher::kSlurm;
  ReadRanks(environment, {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}, place);
  place.one_host = Number(environment, "SLURM_NNODES", 1, kMostProcesses, 1) == 1;
  if (place.one_host) place.local_size = place.size;
  if (!place.one_host && place.local_size == 0)
    place.local_size = std::max(1, place.size / std::max(1, Number(environment, "SLURM_NNODES", 1, kMostProcesses, 1)));
  place.job = Joined(environment, {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"});
  return place;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::string FirstHost(const std::string& node_list) {
  const size_t bracket = node_list.find('['), comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const size_t end = node_list.find_first_of(",-]", bracket);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1);
}

Place PlaceFrom(const Environment& environment) {
  Place place;
  if (BothOrNone(environment, "RANK", "WORLD_SIZE")) {
    place = OfTorch(environment);
  } else if (BothOrNone(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) {
    place = OfOpenMpi(environment);
  } else if (environment("SLURM_PROCID") && environment("SLURM_STEP_ID")) {
    BothOrNone(environment, "SLURM_PROCID", "SLURM_NTASKS");
    place = OfSlurm(environment);
  } else {
    return place;
  }
  place.address = environment("MASTER_ADDR").value_or("");
  place.port = Number(environment, "MASTER_PORT", 1, 65535, 0);
  if (place.launcher == Launcher::kSlurm && place.address.empty())
    place.address = FirstHost(environment("SLURM_JOB_NODELIST").value_or(""));
  if (place.size > 1 && !place.one_host && place.address.empty())
    Fail("the processes are on several machines: MASTER_ADDR must name that of rank 0{}",
         place.launcher == Launcher::kOpenMpi ? " (mpirun -x MASTER_ADDR=HOST)" : "");
  return place;
}

int ThreadsOf(const Place& place, int usable, bool bound) {
  return bound || place.local_size < 2 ? usable : std::max(1, usable / place.local_size);
}

int ThreadsHereOf(const Place& place) {
  // mpirun and srun bind processes to cores of their own unless they are told not to; torchrun never does.
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  const bool binds = place.launcher == Launcher::kOpenMpi || place.launcher == Launcher::kSlurm;
  const bool bound = binds && known && CPU_COUNT(&set) < sysconf(_SC_NPROCESSORS_ONLN);
  return ThreadsOf(place, HardwareThreads(), bound);
}

}  // namespace lshformer
