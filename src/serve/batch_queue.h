// What waits to be run, and the threads that run it: inputs of all requests, which share calls by their tokens.
//
// Order. An input that came at time t and has n tokens has its turn by t + n · (seconds a token, as measured): it lets
// pass those that come within the time that it takes itself, and no others. Short ones therefore wait little, and long
// ones at most as long again as they run.
//
// Calls. The first in that order, and those behind it of the same kind as long as all have at most `batch_tokens`
// together. An input of more than kLongInput tokens runs alone, and while it does a second thread runs the short ones,
// in smaller calls. Nobody waits for others to come: what is there when a thread is free is run.
//
// Bounded: Push refuses all of a request's inputs where `capacity` would be exceeded by those that wait or run.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lshformer {

struct WaitingInput {
  virtual ~WaitingInput() = default;
  // Whether nobody waits for its answer any more: it is then dropped in place of being run.
  virtual bool dropped() const = 0;
  int kind = 0;  // those of one kind may share a call
  int64_t tokens = 0;
  double since = 0;  // seconds, of Push
};

inline constexpr int64_t kLongInput = 2048;
inline constexpr int64_t kTokensBesideLong = 4096;  // of a call while a long input runs

class BatchQueue {
 public:
  using Batch = std::vector<std::unique_ptr<WaitingInput>>;
  using Run = std::function<void(Batch&)>;  // of one kind, never empty; throws nothing; from one of two threads
  struct Limits {
    int64_t capacity = 512, batch_tokens = 16384;
  };
  BatchQueue(const Limits& limits, Run run);
  ~BatchQueue();  // as Stop(), and waits
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  bool Push(Batch inputs);  // false: full, or stopping; nothing was taken
  void Stop();              // no more are accepted; those that were are run
  void Drop();              // those that wait are not run any more
  struct Size {
    int64_t waiting = 0, running = 0;  // inputs
  };
  Size size() const;

  static double Now();  // seconds on a clock that only goes forward

 private:
  enum class Lane { kAll, kBesideLong };
  std::condition_variable& Changed(Lane lane) { return changed_[static_cast<size_t>(lane)]; }
  void WakeAll();
  void Work(Lane lane);
  bool HasWork(Lane lane) const;
  Batch Take(Lane lane);

  const Limits limits_;
  const Run run_;
  mutable std::mutex mutex_;
  std::array<std::condition_variable, 2> changed_;                // for each lane: it may have work
  std::multimap<double, std::unique_ptr<WaitingInput>> waiting_;  // by their turn
  int64_t short_waiting_ = 0, running_ = 0;
  bool long_runs_ = false, stopping_ = false;
  double seconds_per_token_ = 1e-4;
  std::vector<std::thread> threads_;
};

}  // namespace lshformer
