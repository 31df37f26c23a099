// How a long call is ended from outside: it is handed a token and asks it between its parts.
#pragma once
#include <functional>

namespace lshformer {

// Returns where the call shall go on; what it throws ends the call. From the thread that calls, or from those it uses.
using StopToken = std::function<void()>;
// Throws Interrupted after SIGINT or SIGTERM (signals.h).
const StopToken& StopOnSignal();

}  // namespace lshformer
