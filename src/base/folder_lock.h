// One process at a time in a folder.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporaries.h"

namespace lshformer {

inline constexpr const char* kLockFile = ".lshformer.lock";

// Somebody else holds a folder.
class FolderInUse : public Error {
 public:
  using Error::Error;
};

// Holds `folder` until it is destroyed: an flock(2) on a file of its own in there, kLockFile, which holds the number of
// the process. The system drops the lock with the process, however that ends; the file that a kill leaves behind means
// nothing to the next one, which takes it over. It is deleted in the end, while it is still locked.
//
// Advice, not protection: only who asks is kept out. Where the file cannot be made (a folder that is read-only, a full
// disk) or the file system has no locks, nothing is held and nothing is said; held() tells.
class FolderLock {
 public:
  // Makes the folder and its parents where they are missing; those that are empty when the lock is released go again.
  // FolderInUse "`what`: FOLDER is in use by process PID" where another lock holds it, be it this process's own. A
  // folder that is there for the lock alone goes by the name of what it guards, `guarded`.
  FolderLock(const std::string& folder, const std::string& what, const std::string& guarded = "");
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool held() const { return file_ >= 0; }

 private:
  bool TryLock();  // false: the file was deleted in between, so once more
  [[noreturn]] void FailInUse(int file) const;
  void Release();

  std::string folder_, path_, what_, shown_;
  std::vector<std::string> made_;  // innermost first
  TemporaryName name_;             // of the lock file, for a signal that ends the process at once
  int file_ = -1;
};

// Whether the folder is missing or has no entry but the lock's file.
bool IsEmptyButForLock(const std::string& folder);

}  // namespace lshformer
