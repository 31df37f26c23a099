// How the processes of a job find each other: c10d's store.
//
// On one machine a FileStore in a folder of this user alone. Rank 0 makes the file and then, by rename, a note that
// names it with its process and when that began; a note whose process is gone was left by a job that was killed.
// Across machines a TCPStore of rank 0's on the first free port of sixteen; the others try the same until one answers
// with the job's token. TCPStore listens on all interfaces and asks nobody who they are.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "dist/communicator.h"
#include "dist/place.h"
#include "ops/torch.h"

namespace c10d {
class Store;
}

namespace lshformer {

// A digest of what the job's ranks share and no other job at the same moment has. `generation`: how many times this
// process has met others before.
std::string JobToken(const Place& place, int generation);

// $TMPDIR (/tmp) / lshformer-UID, made for this user alone. Error where somebody else has it.
std::string MeetingFolder();

class Meeting {
 public:
  Meeting(const Place& place, const MeetingOptions& options, const std::string& token);
  ~Meeting();  // removes what rank 0 made
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

 private:
  void MeetInFolder(const Place& place, std::chrono::steady_clock::time_point until, const std::string& token);
  void MeetAtPort(const Place& place, int first_port, std::chrono::steady_clock::time_point until,
                  const std::string& token);

  c10::intrusive_ptr<c10d::Store> store_;
  std::string note_, file_;  // rank 0's
};

}  // namespace lshformer
