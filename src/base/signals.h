// SIGINT and SIGTERM: the first asks long work to stop at its next safe point, the second ends the process at once
// with status 128 + signal.
#pragma once

namespace lshformer {

void InstallSignalHandlers();           // the command line calls it once; also ignores SIGPIPE
int StopSignal();                       // 0, or the signal that asked to stop
void ThrowIfStopped(const char* what);  // throws Interrupted

}  // namespace lshformer
