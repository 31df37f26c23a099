#include "serve/batch_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/thread_limit.h"

namespace lshformer {
namespace {

bool IsLong(const WaitingInput& input) { return input.tokens > kLongInput; }

}  // namespace

double BatchQueue::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BatchQueue::BatchQueue(const Limits& limits, Run run) : limits_(limits), run_(std::move(run)) {
  const SignalsElsewhere none;
  for (const Lane lane : {Lane::kAll, Lane::kBesideLong}) threads_.emplace_back([this, lane] { Work(lane); });
}

BatchQueue::~BatchQueue() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
}

bool BatchQueue::Push(Batch inputs) {
  const double now = Now();
  bool beside = false;
  {
    const std::lock_guard lock(mutex_);
    const auto size = static_cast<int64_t>(waiting_.size()) + running_ + static_cast<int64_t>(inputs.size());
    if (stopping_ || size > limits_.capacity) return false;
    for (std::unique_ptr<WaitingInput>& input : inputs) {
      input->since = now;
      short_waiting_ += IsLong(*input) ? 0 : 1;
      const double turn = now + static_cast<double>(input->tokens) * seconds_per_token_;
      waiting_.emplace(turn, std::move(input));
    }
    beside = long_runs_;
  }
  Changed(Lane::kAll).notify_one();
  if (beside) Changed(Lane::kBesideLong).notify_one();
  return true;
}

void BatchQueue::WakeAll() {
  for (std::condition_variable& changed : changed_) changed.notify_all();
}

void BatchQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  WakeAll();
}

void BatchQueue::Drop() {
  std::multimap<double, std::unique_ptr<WaitingInput>> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(waiting_);
  short_waiting_ = 0;
}

BatchQueue::Size BatchQueue::size() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<int64_t>(waiting_.size()), running_};
}

bool BatchQueue::HasWork(Lane lane) const {
  return lane == Lane::kAll ? !waiting_.empty() : long_runs_ && short_waiting_ > 0;
}

BatchQueue::Batch BatchQueue::Take(Lane lane) {
  Batch batch, dropped;
  int64_t tokens = 0;
  const int64_t most =
      lane == Lane::kAll ? limits_.batch_tokens : std::min<int64_t>(limits_.batch_tokens, kTokensBesideLong);
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    WaitingInput& input = *next->second;
    const bool drop = input.dropped();
    bool take = lane == Lane::kAll || !IsLong(input);
    if (take && !batch.empty())
      take = !IsLong(input) && !IsLong(*batch.front()) && input.kind == batch.front()->kind &&
             tokens + input.tokens <= most;
    if (!drop && !take) {
      ++next;
      continue;
    }
    short_waiting_ -= IsLong(input) ? 0 : 1;
    if (!drop) tokens += input.tokens;
    (drop ? dropped : batch).push_back(std::move(next->second));
    next = waiting_.erase(next);
    if (!batch.empty() && (IsLong(*batch.front()) || tokens >= most)) break;
  }
  return batch;
}

void BatchQueue::Work(Lane lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Changed(lane).wait(lock, [&] { return HasWork(lane) || (stopping_ && waiting_.empty()); });
    if (!HasWork(lane)) return;
    Batch batch = Take(lane);
    if (batch.empty()) {  // nobody waited for any
      if (stopping_) WakeAll();
      continue;
    }
    const auto count = static_cast<int64_t>(batch.size());
    int64_t tokens = 0;
    for (const auto& input : batch) tokens += input->tokens;
    const bool is_long = IsLong(*batch.front());
    running_ += count;
    long_runs_ |= is_long;
    if (is_long) Changed(Lane::kBesideLong).notify_one();
    lock.unlock();
    const double begin = Now();
    run_(batch);
    const double took = Now() - begin;
    batch.clear();
    lock.lock();
    running_ -= count;
    if (is_long) long_runs_ = false;
    // Of the thread that has the machine to itself.
    if (lane == Lane::kAll && tokens > 0)
      seconds_per_token_ += 0.1 * (took / static_cast<double>(tokens) - seconds_per_token_);
    if (stopping_) WakeAll();
  }
}

}  // namespace lshformer
