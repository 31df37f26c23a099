// The processes of one job, and what they say to each other: libtorch's c10d over Gloo.
//
// Every call but those that say otherwise is one of all ranks, in the same order; each returns when this rank's part is
// done. What arrives are the bytes that were sent: nothing is added up on the way, so no result hangs on an order that
// is not the caller's. Not for several threads at once.
//
// Errors: a rank that died, left by an error of its own or does not answer within the time-out ends every other rank's
// call with an Error that names it and its machine.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/option_table.h"
#include "dist/place.h"
#include "ops/token_split.h"

namespace lshformer {

// How the processes meet.
struct MeetingOptions {
  bool join = false;  // false: this process is alone, whatever the environment says
  int port = 0;       // first of the sixteen that rank 0 tries; 0: MASTER_PORT + 1. One machine needs none
  int timeout = 600;  // seconds: for a rank to arrive, and for a silent one to answer
};

const OptionTable<MeetingOptions>& MeetingTable();

// Whether this build can do it at all.
bool HasDistribution();

class Communicator : public TokenExchange {
 public:
  bool first() const { return rank() == 0; }

  using TokenExchange::AllGather;  // of floats
  virtual void Broadcast(std::span<std::byte> bytes, int from) = 0;
  virtual void Barrier() = 0;

  // Of any lengths, small: [ranks].
  std::vector<std::string> AllGather(const std::string& mine);
  std::string Broadcast(const std::string& text, int from);
  int64_t Max(int64_t mine);

  // Bytes that this rank sent so far, as the calls ask for them (to itself: none), and calls.
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t messages() const { return messages_; }

 protected:
  Communicator(int rank, int size) : TokenExchange(rank, size) {}
  virtual void AllGatherBytes(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  void Count(int64_t bytes) {
    bytes_sent_ += bytes;
    ++messages_;
  }

 private:
  int64_t bytes_sent_ = 0, messages_ = 0;
};

// Meets the others; nullptr where there is one process or `join` is false. A process that is among them already gets
// the same Communicator for as long as anybody keeps it. The last to let it go waits for the other ranks, so that none
// sees a connection end that has not failed; not while an exception ends its work: then the others are told.
// Errors: a build without distribution, an environment that PlaceFrom refuses, a rank that does not arrive in time, no
// free port, an address that does not resolve.
std::shared_ptr<Communicator> JoinProcesses(const MeetingOptions& options);

// Whether a signal asked any process to stop: a call of all, between two pieces of work that they share. `own`: the
// signal that stopped this one's piece, 0 where it was finished; `what` is called so in the Interrupted that all throw.
void ThrowIfAnyStopped(Communicator* processes, int own, const char* what);

// Ends with an Error on every rank where they do not all say the same: names the first thing that differs, and whose.
// `facts`: pairs of a name and a value, the same names on all.
void RequireSame(Communicator& communicator, const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace lshformer
