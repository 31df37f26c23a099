// A service over a model whose outputs can be worked out by hand, asked without a wire.
#pragma once
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "infer/fake_model.h"
#include "serve/service.h"

namespace lshformer::testing {

class TestService {
 public:
  explicit TestService(PredictTask task, ServeOptions options = {}, const std::vector<std::string>& labels = {})
      : setup_(task) {
    if (!labels.empty()) setup_.config.labels = labels;
    setup_.config.num_labels = static_cast<int64_t>(setup_.config.labels.size());
    std::vector<ServedModel> models;
    models.emplace_back("fake", setup_.Make(), options);
    service_ = std::make_unique<Service>(std::move(models), options);
  }

  HttpResponse Ask(const std::string& method, const std::string& path, const std::string& body = "",
                   HttpHeaders headers = {}) {
    auto request = std::make_shared<HttpRequest>();
    request->method = method;
    request->target = path;
    request->body = body;
    request->headers = std::move(headers);
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    HttpResponse response;
    service_->Handle(request, [&](HttpResponse answer) {
      const std::lock_guard lock(mutex);
      response = std::move(answer);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
    return response;
  }
  HttpResponse Post(const std::string& path, const std::string& body) { return Ask("POST", path, body); }
  Json Answer(const std::string& path, const std::string& body) {
    const HttpResponse response = Post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return ParseJson(response.body, path);
  }
  // "422 Validation: message".
  std::string Refusal(const std::string& path, const std::string& body) {
    const HttpResponse response = Post(path, body);
    const Json error = ParseJson(response.body, path);
    return std::to_string(response.status) + " " + error["error_type"].get<std::string>() + ": " +
           error["error"].get<std::string>();
  }
  Service& service() { return *service_; }

 private:
  FakeSetup setup_;
  std::unique_ptr<Service> service_;
};

}  // namespace lshformer::testing
