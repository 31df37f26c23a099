#include "serve/request_error.h"

#include "base/json.h"

namespace lshformer {

const char* Name(RequestErrorType type) {
  switch (type) {
    case RequestErrorType::kValidation:
      return "Validation";
    case RequestErrorType::kTokenizer:
      return "Tokenizer";
    case RequestErrorType::kBackend:
      return "Backend";
    case RequestErrorType::kEmpty:
      return "Empty";
    case RequestErrorType::kUnhealthy:
      return "Unhealthy";
    case RequestErrorType::kOverloaded:
      break;
  }
  return "Overloaded";
}

int StatusOf(RequestErrorType type) {
  switch (type) {
    case RequestErrorType::kValidation:
    case RequestErrorType::kTokenizer:
      return 422;
    case RequestErrorType::kBackend:
      return 424;
    case RequestErrorType::kEmpty:
      return 400;
    case RequestErrorType::kUnhealthy:
      return 503;
    case RequestErrorType::kOverloaded:
      break;
  }
  return 429;
}

HttpResponse ErrorResponse(const RequestError& error, bool openai) {
  HttpResponse response;
  response.status = error.status();
  const Json body = openai ? Json{{"message", error.what()}, {"code", error.status()}, {"type", Name(error.type())}}
                           : Json{{"error", error.what()}, {"error_type", Name(error.type())}};
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

}  // namespace lshformer
