// What a process that was killed left behind.
#pragma once
#include <sys/types.h>

#include <string>

namespace lshformer {

// Removes the temporary files of AtomicFile (files.h) in `folder` that no process holds: regular files under our name,
// of this user, whose process number is no living process's (or is our own: numbers come again, in containers always)
// and that nobody has locked. All else, and what cannot be removed, stays. A folder that is missing has none.
void RemoveLeftovers(const std::string& folder);

// The name under which this process makes the folder `path` before it is whole: beside it, ".lshformer-NAME.PID.part",
// with the beginning of a long NAME.
std::string StagedName(const std::string& path);
// The name, without a process, under which lies what a process that makes that folder and is stopped or killed leaves
// for the next one to go on from: beside it, ".lshformer-NAME.unfinished".
std::string UnfinishedName(const std::string& path);
// Removes what other processes have left of making that folder, with all that is in it: folders of such a name, of this
// user, whose process is no living one and that nobody has locked (flock(2) on the folder itself). Gives the number of
// another process that holds one, be it on another machine, the least of several; 0: none does.
pid_t RemoveStagedLeftovers(const std::string& path);

}  // namespace lshformer
