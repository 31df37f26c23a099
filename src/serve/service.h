// The server without the wire: what each request is answered, from which thread.
//
// Handle reads short bodies and makes tokens of them where it is called; long ones go through a thread for that alone.
// The inputs wait in a BatchQueue, whose threads run the models and answer when the last input of a request is done.
// What was accepted is answered, whatever signal comes, until Abandon.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/batch_queue.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/options.h"
#include "serve/request_error.h"
#include "serve/routes.h"
#include "serve/served_model.h"

namespace lshformer {

class Service {
 public:
  // At least one model; names that differ.
  Service(std::vector<ServedModel> models, const ServeOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void Handle(std::shared_ptr<HttpRequest> request, Respond respond);
  void Stop();     // requests are answered 503 from now on; what was accepted is finished
  void Abandon();  // what waits or runs is given up
  // As the server's figures have it.
  void CountConnections(std::function<int64_t()> connections) { connections_ = std::move(connections); }
  int64_t answered() const { return answered_; }
  // An error of the wire itself, in the shape and with the headers of all others.
  HttpResponse WireError(int status, const std::string& message);

 private:
  struct Pending;
  struct Input;
  HttpResponse Answer(const HttpRequest& request, const RouteRow& row);  // GET
  void Ask(const std::shared_ptr<Pending>& pending);                     // POST
  HttpResponse Direct(const Pending& pending);                           // of /tokenize, /decode and /inspect
  void RunBatch(BatchQueue::Batch& batch);
  void Finish(Pending& pending);
  void Fail(Pending& pending, const RequestError& error);
  void Send(Pending& pending, HttpResponse response);
  void CheckKey(const HttpRequest& request) const;
  void AddCors(const HttpRequest& request, HttpResponse& response) const;
  HttpResponse Preflight(const HttpRequest& request) const;
  const ServedModel& ModelCalled(const std::string& name) const;
  std::string Info() const;
  std::string ModelList() const;
  std::string MetricsText() const;
  void ReadLongBodies();

  const ServeOptions options_;
  const std::vector<ServedModel> models_;
  int64_t model_bytes_ = 0;
  ServeMetrics metrics_;
  std::function<int64_t()> connections_;
  std::atomic<bool> stopping_ = false, abandoned_ = false;
  std::atomic<int64_t> answered_ = 0;
  std::mutex mutex_;  // of what the reading thread has before it
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending>> long_bodies_;
  bool closing_ = false;
  std::unique_ptr<BatchQueue> queue_;
  std::thread reader_;
};

}  // namespace lshformer
