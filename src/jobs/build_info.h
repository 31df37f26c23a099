// What this program was built from and what machine it runs on.
#pragma once
#include <string>

#include "base/json.h"

namespace lshformer {

std::string CpuName();  // as the system names it; "unknown" where it does not

// {"version", "compiler", "build", "threads_backend", "isa": {"active", "available", "compiled", "no_amx"}, "cpu":
// {"name", "cores", "threads"}, "libraries": {name: version}, "devices": ["cpu"]}; no_amx: why matrix tiles cannot be
// used, null where they can.
Json BuildInfo();

}  // namespace lshformer
