// What the server counts, as Prometheus reads it, under the names of Text Embeddings Inference.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lshformer {

// Numbers in a fixed set of buckets: counts of those at most `bounds[i]`, and of all.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void Add(double value);
  void Write(std::string_view name, std::string_view help, std::string& out) const;

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

// How long the parts of a request took, in seconds, and what it had.
struct RequestTimes {
  double total = 0, tokenization = 0, queue = 0, inference = 0;
  int64_t tokens = 0, characters = 0;
};

// From any thread.
class ServeMetrics {
 public:
  ServeMetrics();
  void Request(bool batch);  // one that is to be answered, with several inputs or one
  void Success(bool batch, const RequestTimes& times);
  void Failure(std::string_view error_type);  // in lower case
  void Input(int64_t tokens);
  void Batch(int64_t inputs, int64_t tokens, int64_t pairs);

  // What is so now.
  struct Now {
    int64_t waiting = 0, running = 0, connections = 0;
    int64_t model_bytes = 0, resident_bytes = 0;
  };
  std::string Text(const Now& now) const;

 private:
  mutable std::mutex mutex_;
  std::array<int64_t, 2> requests_{}, successes_{};  // single, batch
  std::map<std::string, int64_t, std::less<>> failures_;
  Histogram duration_, tokenization_, queue_, inference_, input_length_, batch_size_, batch_tokens_;
  int64_t pairs_ = 0;
};

}  // namespace lshformer
