// Which of how many processes this one is, as the launcher that started it says in the environment: torchrun, Open MPI,
// SLURM, or whoever sets torchrun's variables by hand.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace lshformer {

enum class Launcher { kNone, kTorch, kOpenMpi, kSlurm };

struct Place {
  Launcher launcher = Launcher::kNone;
  int rank = 0, size = 1;              // 0 ≤ rank < size: of all processes
  int local_rank = 0, local_size = 0;  // of those on this machine; 0: not known
  bool one_host = true;                // all of them are on this machine
  std::string address;                 // of rank 0's machine, "" where nobody needs it
  int port = 0;                        // that the launcher chose for the job; 0: none
  std::string job;                     // tells jobs apart that run side by side: what the launcher calls it
};

// The value of a variable; nullopt where it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment ProcessEnvironment();

// Reads, of the first launcher that is there:
//   torchrun, by hand   RANK, WORLD_SIZE; LOCAL_RANK, LOCAL_WORLD_SIZE; MASTER_ADDR, MASTER_PORT; TORCHELASTIC_RUN_ID,
//                       TORCHELASTIC_RESTART_COUNT
//   Open MPI            OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; PMIX_NAMESPACE
//   SLURM               SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NTASKS_PER_NODE, SLURM_NNODES; SLURM_JOB_ID,
//                       SLURM_STEP_ID; without MASTER_ADDR the first machine of SLURM_JOB_NODELIST
// Without RANK and WORLD_SIZE of a launcher there is one process, also inside a SLURM job that did not use srun.
// All are on one host where the launcher counts as many here as there are, or by hand with a MASTER_ADDR of the
// loopback interface; no address is needed then.
// Error that names the variable: half of them set, a number out of range, no address where there are several hosts.
Place PlaceFrom(const Environment& environment);

// "node[07-09,12],other" → "node07"
std::string FirstHost(const std::string& node_list);

// How many threads a process gets that is not told: the machine's cores over the processes on it. `usable`: the cores
// that this process may use; `bound`: the launcher gave it some of its own, which nobody else shares.
int ThreadsOf(const Place& place, int usable, bool bound);
// Of this process: HardwareThreads where it is alone.
int ThreadsHereOf(const Place& place);

}  // namespace lshformer
