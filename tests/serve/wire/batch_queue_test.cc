#include "serve/batch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Item : WaitingInput {
  Item(int item_kind, int64_t item_tokens) {
    kind = item_kind;
    tokens = item_tokens;
  }
  bool dropped() const override { return gone != nullptr && *gone; }
  std::shared_ptr<std::atomic<bool>> gone;
};

BatchQueue::Batch Items(const std::vector<int64_t>& tokens, int kind = 0) {
  BatchQueue::Batch items;
  for (const int64_t count : tokens) items.push_back(std::make_unique<Item>(kind, count));
  return items;
}

// Runs nothing until it is opened; notes the tokens of each call.
class Runner {
 public:
  void Run(BatchQueue::Batch& batch) {
    std::vector<int64_t> tokens;
    for (const auto& item : batch) tokens.push_back(item->tokens);
    std::unique_lock lock(mutex_);
    calls_.push_back(tokens);
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || (short_open_ && tokens.front() <= kLongInput); });
  }
  void Open(bool short_only = false) {
    const std::lock_guard lock(mutex_);
    (short_only ? short_open_ : open_) = true;
    changed_.notify_all();
  }
  std::vector<std::vector<int64_t>> WaitFor(size_t calls) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return calls_.size() >= calls; });
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, short_open_ = false;
  std::vector<std::vector<int64_t>> calls_;
};

BatchQueue::Run To(Runner& runner) {
  return [&runner](BatchQueue::Batch& batch) { runner.Run(batch); };
}

TEST(BatchQueueTest, WhatWaitsSharesCallsByTokensShortestFirst) {
  Runner runner;
  BatchQueue queue({.capacity = 100, .batch_tokens = 100}, To(runner));
  ASSERT_TRUE(queue.Push(Items({10})));
  EXPECT_THAT(runner.WaitFor(1), ElementsAre(ElementsAre(10)));  // it does not wait for others
  ASSERT_TRUE(queue.Push(Items({60, 50, 40, 30})));
  EXPECT_EQ(queue.size().waiting, 4);
  EXPECT_EQ(queue.size().running, 1);
  runner.Open();
  EXPECT_THAT(runner.WaitFor(4), ElementsAre(ElementsAre(10), ElementsAre(30, 40), ElementsAre(50), ElementsAre(60)));
}

TEST(BatchQueueTest, KindsDoNotShareCalls) {
  Runner runner;
  BatchQueue queue({}, To(runner));
  ASSERT_TRUE(queue.Push(Items({10})));
  runner.WaitFor(1);
  ASSERT_TRUE(queue.Push(Items({5}, 1)));
  ASSERT_TRUE(queue.Push(Items({5}, 2)));
  ASSERT_TRUE(queue.Push(Items({5}, 1)));
  runner.Open();
  EXPECT_THAT(runner.WaitFor(3), ElementsAre(ElementsAre(10), ElementsAre(5, 5), ElementsAre(5)));
}

// A long input has a thread of its own as it were: short ones are run meanwhile, long ones wait.
TEST(BatchQueueTest, ALongInputDoesNotHoldUpShortOnes) {
  Runner runner;
  BatchQueue queue({.capacity = 100, .batch_tokens = 1 << 20}, To(runner));
  ASSERT_TRUE(queue.Push(Items({100'000})));
  runner.WaitFor(1);
  runner.Open(/*short_only=*/true);
  ASSERT_TRUE(queue.Push(Items({90'000, 10, 20})));
  std::vector<int64_t> run;
  for (size_t calls = 2; run.size() < 2 && calls <= 3; ++calls) {
    run.clear();
    const auto made = runner.WaitFor(calls);
    for (size_t i = 1; i < made.size(); ++i) run.insert(run.end(), made[i].begin(), made[i].end());
  }
  EXPECT_THAT(run, ElementsAre(10, 20));
  EXPECT_EQ(queue.size().waiting, 1);
  runner.Open();
}

// Those that come later pass a long input only for as long as it takes itself.
TEST(BatchQueueTest, ShortInputsDoNotHoldUpALongOneForEver) {
  std::atomic<bool> long_ran = false;
  BatchQueue queue({.capacity = 10'000, .batch_tokens = 64}, [&](BatchQueue::Batch& batch) {
    long_ran = long_ran || batch.front()->tokens > kLongInput;
    std::this_thread::sleep_for(std::chrono::microseconds(100 * batch.size()));
  });
  ASSERT_TRUE(queue.Push(Items(std::vector<int64_t>(64, 10))));
  ASSERT_TRUE(queue.Push(Items({3000})));
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!long_ran && std::chrono::steady_clock::now() < end) {
    queue.Push(Items(std::vector<int64_t>(8, 10)));  // more than is run
    std::this_thread::sleep_for(std::chrono::microseconds(400));
  }
  EXPECT_TRUE(long_ran);
}

TEST(BatchQueueTest, IsBoundedByAllInputsOfARequest) {
  Runner runner;
  BatchQueue queue({.capacity = 4, .batch_tokens = 10}, To(runner));
  ASSERT_TRUE(queue.Push(Items({10, 10})));
  runner.WaitFor(1);
  EXPECT_FALSE(queue.Push(Items({10, 10, 10})));
  EXPECT_EQ(queue.size().waiting, 1);  // none of them was taken
  EXPECT_TRUE(queue.Push(Items({10, 10})));
  EXPECT_FALSE(queue.Push(Items({10})));
  runner.Open();
}

TEST(BatchQueueTest, WhatNobodyWaitsForIsNotRun) {
  Runner runner;
  BatchQueue queue({.capacity = 10, .batch_tokens = 10}, To(runner));
  ASSERT_TRUE(queue.Push(Items({10})));
  runner.WaitFor(1);
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  BatchQueue::Batch items = Items({1, 2, 3});
  static_cast<Item&>(*items[1]).gone = gone;
  ASSERT_TRUE(queue.Push(std::move(items)));
  *gone = true;
  runner.Open();
  EXPECT_THAT(runner.WaitFor(2).back(), ElementsAre(1, 3));
}

TEST(BatchQueueTest, StoppedItRunsWhatItHasAndTakesNoMore) {
  Runner runner;
  {
    BatchQueue queue({.capacity = 10, .batch_tokens = 10}, To(runner));
    ASSERT_TRUE(queue.Push(Items({10, 9, 8})));
    queue.Stop();
    EXPECT_FALSE(queue.Push(Items({1})));
    runner.Open();
  }
  EXPECT_EQ(runner.WaitFor(3).size(), 3U);
}

// Both threads end, though the last that waited were not run.
TEST(BatchQueueTest, StoppedItEndsWhereNobodyWaitsForWhatItHas) {
  Runner runner;
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  {
    BatchQueue queue({.capacity = 10, .batch_tokens = 10}, To(runner));
    ASSERT_TRUE(queue.Push(Items({10})));
    runner.WaitFor(1);
    BatchQueue::Batch items = Items({10, 10});
    for (const auto& item : items) static_cast<Item&>(*item).gone = gone;
    ASSERT_TRUE(queue.Push(std::move(items)));
    queue.Stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the second thread has looked, and waits
    *gone = true;
    runner.Open();
  }
  EXPECT_EQ(runner.WaitFor(1).size(), 1U);
}

TEST(BatchQueueTest, DroppedItRunsNoMore) {
  Runner runner;
  {
    BatchQueue queue({.capacity = 10, .batch_tokens = 10}, To(runner));
    ASSERT_TRUE(queue.Push(Items({10, 10})));
    runner.WaitFor(1);
    queue.Drop();
    runner.Open();
  }
  EXPECT_EQ(runner.WaitFor(1).size(), 1U);
}

// From many threads: each input runs once, or was refused.
TEST(BatchQueueTest, EachInputIsRunOnce) {
  std::atomic<int64_t> run = 0, accepted = 0;
  {
    BatchQueue queue({.capacity = 50, .batch_tokens = 5000},
                     [&](BatchQueue::Batch& batch) { run += static_cast<int64_t>(batch.size()); });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 300; ++i) {
          std::vector<int64_t> tokens(static_cast<size_t>(1 + i % 7), 1 + (i * 37 + t) % 3000);
          if (queue.Push(Items(tokens, i % 2))) accepted += static_cast<int64_t>(tokens.size());
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_GT(accepted, 0);
  EXPECT_EQ(run, accepted);
}

}  // namespace
}  // namespace lshformer
