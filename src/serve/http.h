// Requests and answers as the rest of the server sees them, whatever reads them off the wire.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lower_case.h"

namespace lshformer {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method, target;  // "POST", "/embed?x=1"
  HttpHeaders headers;         // in their order
  std::string body;
  std::atomic<bool> gone = false;  // the client has closed the connection: nobody waits for an answer

  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  // The first header of that name, in lower case; "" where there is none.
  std::string_view Header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (LowerCase(key) == name) return value;
    return "";
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;
  std::string body;
};

// Called once, from any thread.
using Respond = std::function<void(HttpResponse)>;
// Returns soon: what takes long goes on in other threads.
using HttpHandler = std::function<void(std::shared_ptr<HttpRequest>, Respond)>;

}  // namespace lshformer
