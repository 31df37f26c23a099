// What a process that was killed left behind.
#pragma once
#include <string>

namespace lshformer {

// Removes the temporary files of AtomicFile (files.h) in `folder` that no process holds: regular files under our name,
// of this user, whose process number is no living process's (or is our own: numbers come again, in containers always)
// and that nobody has locked. All else, and what cannot be removed, stays. A folder that is missing has none.
void RemoveLeftovers(const std::string& folder);

}  // namespace lshformer
