// What this program was built from and what machine it runs on.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace lshformer {

std::string CpuName();  // as the system names it; "unknown" where it does not

// {"version", "compiler", "build", "threads_backend", "isa": {"active", "available", "compiled", "no_amx"}, "cpu":
// {"name", "cores", "threads"}, "libraries": {name: version}, "devices": ["cpu"]}; no_amx: why AMX tiles cannot be
// used, null where they can.
Json BuildInfo();

// What of them decides the bits of a result, by name: processes of one job must have it alike (dist/communicator.h).
std::vector<std::pair<std::string, std::string>> ProgramFacts();

}  // namespace lshformer
