#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace lshformer {
namespace {

// first, first · step, …
std::vector<double> Bounds(double first, double step, int count) {
  std::vector<double> bounds;
  for (int i = 0; i < count; ++i, first *= step) bounds.push_back(first);
  return bounds;
}
std::vector<double> Seconds() { return Bounds(0.0001, 2, 22); }  // to 200 s
std::vector<double> Powers(int count) { return Bounds(1, 2, count); }

template <class... Args>
void Append(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

void Head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  Append(out, "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void Gauge(std::string& out, std::string_view name, std::string_view help, int64_t value) {
  Head(out, name, "gauge", help);
  Append(out, "{} {}\n", name, value);
}

constexpr const char* kMethods[] = {"single", "batch"};

}  // namespace

void Histogram::Add(double value) {
  ++counts_[static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin())];
  sum_ += value;
}

void Histogram::Write(std::string_view name, std::string_view help, std::string& out) const {
  Head(out, name, "histogram", help);
  int64_t count = 0;
  for (size_t i = 0; i < bounds_.size(); ++i)
    Append(out, "{}_bucket{{le=\"{:g}\"}} {}\n", name, bounds_[i], count += counts_[i]);
  count += counts_.back();
  Append(out, "{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n", name, count, name, sum_, name, count);
}

ServeMetrics::ServeMetrics()
    : duration_(Seconds()),
      tokenization_(Seconds()),
      queue_(Seconds()),
      inference_(Seconds()),
      input_length_(Powers(22)),
      batch_size_(Powers(12)),
      batch_tokens_(Powers(22)) {}

void ServeMetrics::Request(bool batch) {
  const std::lock_guard lock(mutex_);
  ++requests_[batch];
}

void ServeMetrics::Success(bool batch, const RequestTimes& times) {
  const std::lock_guard lock(mutex_);
  ++successes_[batch];
  duration_.Add(times.total);
  tokenization_.Add(times.tokenization);
  queue_.Add(times.queue);
  inference_.Add(times.inference);
}

void ServeMetrics::Failure(std::string_view error_type) {
  const std::lock_guard lock(mutex_);
  ++failures_[std::string(error_type)];
}

void ServeMetrics::Input(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  input_length_.Add(static_cast<double>(tokens));
}

void ServeMetrics::Batch(int64_t inputs, int64_t tokens, int64_t pairs) {
  const std::lock_guard lock(mutex_);
  batch_size_.Add(static_cast<double>(inputs));
  batch_tokens_.Add(static_cast<double>(tokens));
  pairs_ += pairs;
}

std::string ServeMetrics::Text(const Now& now) const {
  std::string out;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, help, counts] :
       {std::tuple("te_request_count", "Requests that were to be answered by a model", &requests_),
        std::tuple("te_request_success", "Requests that were answered", &successes_)}) {
    Head(out, name, "counter", help);
    for (size_t i = 0; i < counts->size(); ++i)
      Append(out, "{}{{method=\"{}\"}} {}\n", name, kMethods[i], (*counts)[i]);
  }
  Head(out, "te_request_failure", "counter", "Requests that were refused or failed, by the type of error");
  for (const auto& [type, count] : failures_) Append(out, "te_request_failure{{err=\"{}\"}} {}\n", type, count);
  duration_.Write("te_request_duration", "Seconds from a request to its answer", out);
  tokenization_.Write("te_request_tokenization_duration", "Seconds in which a request became tokens", out);
  queue_.Write("te_request_queue_duration", "Seconds that a request waited, its inputs on average", out);
  inference_.Write("te_request_inference_duration", "Seconds of the calls that a request took part in, on average",
                   out);
  input_length_.Write("te_request_input_length", "Tokens of an input", out);
  batch_size_.Write("te_batch_next_size", "Inputs of a call", out);
  batch_tokens_.Write("te_batch_next_tokens", "Tokens of a call", out);
  Gauge(out, "te_queue_size", "Inputs that wait", now.waiting);
  Gauge(out, "lshformer_inputs_running", "Inputs that are run", now.running);
  Gauge(out, "lshformer_connections", "Open connections", now.connections);
  Head(out, "lshformer_attention_pairs_total", "counter", "Pairs of query and key that attention computed");
  Append(out, "lshformer_attention_pairs_total {}\n", pairs_);
  Gauge(out, "lshformer_model_bytes", "Bytes of the models' parameters", now.model_bytes);
  Gauge(out, "process_resident_memory_bytes", "Memory of the process", now.resident_bytes);
  return out;
}

}  // namespace lshformer
