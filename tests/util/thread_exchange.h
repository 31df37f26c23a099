// Threads of a test that stand for processes which share the tokens of a forward.
#pragma once
#include <algorithm>
#include <barrier>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ops/token_split.h"

namespace lshformer::testing {

// What they leave for each other to read.
struct ThreadRoom {
  explicit ThreadRoom(int size) : meet(size), sent(static_cast<size_t>(size)), counts(static_cast<size_t>(size)) {}
  std::barrier<> meet;
  std::vector<std::span<const float>> sent;
  std::vector<const std::vector<int64_t>*> counts;
};

class ThreadExchange final : public TokenExchange {
 public:
  ThreadExchange(ThreadRoom& room, int rank) : TokenExchange(rank, static_cast<int>(room.sent.size())), room_(room) {}

  void AllGather(std::span<const float> mine, std::span<float> all) override {
    room_.sent[static_cast<size_t>(rank())] = mine;
    room_.meet.arrive_and_wait();
    auto to = all.begin();
    for (const std::span<const float> theirs : room_.sent) to = std::copy(theirs.begin(), theirs.end(), to);
    room_.meet.arrive_and_wait();
  }

  void AllToAll(std::span<const float> send, const std::vector<int64_t>& send_counts, std::span<float> receive,
                const std::vector<int64_t>& receive_counts) override {
    room_.sent[static_cast<size_t>(rank())] = send;
    room_.counts[static_cast<size_t>(rank())] = &send_counts;
    room_.meet.arrive_and_wait();
    auto to = receive.begin();
    for (size_t from = 0; from < room_.sent.size(); ++from) {
      const std::vector<int64_t>& counts = *room_.counts[from];
      int64_t before = 0;
      for (int other = 0; other < rank(); ++other) before += counts[static_cast<size_t>(other)];
      const int64_t count = counts[static_cast<size_t>(rank())];
      if (count != receive_counts[from]) std::terminate();  // they do not agree on what goes where
      to = std::copy_n(room_.sent[from].begin() + before, count, to);
    }
    room_.meet.arrive_and_wait();
  }

 private:
  ThreadRoom& room_;
};

// Calls body(exchange) in `size` threads. It must not throw where the others still wait.
inline void InThreads(int size, const std::function<void(TokenExchange& others)>& body) {
  ThreadRoom room(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadExchange others(room, rank);
      body(others);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lshformer::testing
