// What is wrong with one request, as its client is told: a status, a type and one line.
#pragma once
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "serve/http.h"

namespace lshformer {

// The words of Text Embeddings Inference, which clients look at.
enum class RequestErrorType { kValidation, kTokenizer, kBackend, kEmpty, kUnhealthy, kOverloaded };
const char* Name(RequestErrorType type);
int StatusOf(RequestErrorType type);  // 422, 422, 424, 400, 503, 429

class RequestError : public Error {
 public:
  RequestError(RequestErrorType type, const std::string& message) : RequestError(StatusOf(type), type, message) {}
  RequestError(int status, RequestErrorType type, const std::string& message)
      : Error(message), status_(status), type_(type) {}
  int status() const { return status_; }
  RequestErrorType type() const { return type_; }

 private:
  int status_;
  RequestErrorType type_;
};

template <class... Args>
[[noreturn]] void FailRequest(RequestErrorType type, fmt::format_string<Args...> format, Args&&... args) {
  throw RequestError(type, fmt::format(format, std::forward<Args>(args)...));
}

// {"error", "error_type"}; of OpenAI's routes {"message", "code", "type"}.
HttpResponse ErrorResponse(const RequestError& error, bool openai = false);

}  // namespace lshformer
