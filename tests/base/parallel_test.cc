#include "base/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace lshformer {
namespace {

// A pool of three threads that are one: each index runs, one after another, and the calls are counted.
struct PretendedPool {
  PretendedPool() { UseThreadPool({Count, Run}); }
  ~PretendedPool() { UseThreadPool({}); }
  static int Count() { return 3; }
  static void Run(int count, void (*work)(int index, void* context), void* context) {
    runs.push_back(count);
    for (int i = 0; i < count; ++i) work(i, context);
  }
  static inline std::vector<int> runs;
};

TEST(BorrowedThreadsTest, ThePoolRunsEveryPieceAndSaysHowManyThreads) {
  const int before = Threads();
  const PretendedPool pool;
  PretendedPool::runs.clear();
  SetThreads(before);
  EXPECT_EQ(Threads(), 3);
  std::vector<int> seen(10);
  ParallelFor(10, 2, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(ThreadsHere(), 1);
    ParallelFor(2, 1, [](int64_t, int64_t) {});  // nested: on the calling thread
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_THAT(PretendedPool::runs, ::testing::ElementsAre(3));
  EXPECT_EQ(ThreadIndex(), 0);
  ParallelFor(1, 1, [](int64_t, int64_t) {});
  EXPECT_THAT(PretendedPool::runs, ::testing::ElementsAre(3)) << "one piece needs no pool";
}

TEST(BorrowedThreadsTest, AnErrorOfABodyIsThrownHere) {
  const PretendedPool pool;
  EXPECT_THROW(ParallelFor(9, 1, [](int64_t, int64_t) { throw std::runtime_error("of a body"); }), std::runtime_error);
}

class ParallelForTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    before_ = Threads();
    SetThreads(GetParam());
  }
  void TearDown() override { SetThreads(before_); }
  int before_ = 1;
};

TEST_P(ParallelForTest, EveryIndexExactlyOnceInPiecesOfAtMostGrain) {
  for (const int64_t count : {0, 1, 2, 7, 64, 1000})
    for (const int64_t grain : {1, 2, 3, 64, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      std::atomic<bool> too_large{false};
      ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
        if (begin < 0 || end > count || end <= begin || end - begin > grain) too_large = true;
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      EXPECT_FALSE(too_large);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(seen[static_cast<size_t>(i)], 1) << i << " of " << count << " by " << grain;
    }
}

TEST_P(ParallelForTest, NonsenseIsHarmless) {
  std::atomic<int64_t> items{0};
  const auto count = [&](int64_t begin, int64_t end) { items += end - begin; };
  ParallelFor(-5, 1, count);
  EXPECT_EQ(items, 0);
  ParallelFor(10, 0, count);
  EXPECT_EQ(items, 10);
}

// Each index of thread works alone on its slot: work memory per thread is safe.
TEST_P(ParallelForTest, ThreadIndicesAreInRangeAndNeverShared) {
  std::vector<std::atomic<int>> users(static_cast<size_t>(GetParam()));
  std::atomic<bool> clash{false};
  ParallelFor(200, 1, [&](int64_t, int64_t) {
    const int index = ThreadIndex();
    if (index < 0 || index >= GetParam()) {
      clash = true;
      return;
    }
    if (++users[static_cast<size_t>(index)] != 1) clash = true;
    std::this_thread::yield();
    --users[static_cast<size_t>(index)];
  });
  EXPECT_FALSE(clash);
  EXPECT_EQ(ThreadIndex(), 0);
}

TEST_P(ParallelForTest, ExceptionComesOutAndThePoolStillWorks) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(ParallelFor(100, 1,
                             [&](int64_t begin, int64_t) {
                               if (begin == 3) throw std::runtime_error("three");
                             }),
                 std::runtime_error);
    std::atomic<int> count{0};
    ParallelFor(10, 1, [&](int64_t, int64_t) { ++count; });
    EXPECT_EQ(count, 10);
    EXPECT_EQ(ThreadIndex(), 0);
  }
}

TEST_P(ParallelForTest, ExceptionStopsTheRemainingPieces) {
  constexpr int64_t kPieces = 1'000'000;
  std::atomic<int64_t> ran{0};
  EXPECT_THROW(ParallelFor(kPieces, 1,
                           [&](int64_t, int64_t) {
                             ++ran;
                             throw std::runtime_error("first");
                           }),
               std::runtime_error);
  EXPECT_LE(ran, GetParam());  // at most the piece that each thread was in
}

TEST_P(ParallelForTest, NestedCallsRunOnTheCallingThread) {
  std::atomic<int> count{0};
  std::atomic<bool> moved{false};
  ParallelFor(8, 1, [&](int64_t, int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    const int index = ThreadIndex();
    ParallelFor(5, 2, [&](int64_t begin, int64_t end) {
      if (std::this_thread::get_id() != outer || ThreadIndex() != index) moved = true;
      count += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(count, 40);
  EXPECT_FALSE(moved);
}

// Two threads of a program may both call it; each call is complete.
TEST_P(ParallelForTest, TellsHowManyThreadsTheCallerHas) {
  EXPECT_EQ(ThreadsHere(), GetParam());
  std::atomic<int> alone{0};
  ParallelFor(64, 1, [&](int64_t, int64_t) { alone += ThreadsHere() == 1; });
  EXPECT_EQ(alone, 64);
  ParallelFor(64, 64, [&](int64_t, int64_t) {
    EXPECT_EQ(ThreadsHere(), GetParam()) << "one piece leaves the other threads idle";
  });
  EXPECT_EQ(ThreadsHere(), GetParam());
}

TEST_P(ParallelForTest, ConcurrentCallers) {
  std::vector<int64_t> sums(4);
  std::vector<std::thread> callers;
  for (int64_t& sum : sums)
    callers.emplace_back([&sum] {
      std::atomic<int64_t> total{0};
      ParallelFor(1000, 7, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) total += i;
      });
      sum = total;
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(sums, ::testing::Each(499'500));
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelForTest, ::testing::Values(1, 2, 3, 8));

TEST(Threads, AreAtLeastOne) {
  EXPECT_GE(HardwareThreads(), 1);
  const int before = Threads();
  SetThreads(0);
  EXPECT_EQ(Threads(), 1);
  SetThreads(before);
}

}  // namespace
}  // namespace lshformer
