// Any bytes as the body of a request to any route, and as a path: what is asked for, or an error of one line with a
// status of its own. The first byte chooses the route, the second the model's task.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/parses.h"
#include "serve/api_request.h"
#include "serve/request_error.h"

namespace {

using namespace lshformer;
using testing::Check;

constexpr const char* kTasks[] = {"feature-extraction", "text-classification", "fill-mask", "question-answering",
                                  "multiple-choice"};
constexpr int64_t kInputs = 8;

void CheckRequest(const ApiRequest& request) {
  Check(request.late_chunking || std::ssize(request.inputs) <= kInputs + 1,
        "a request has as many inputs as it may have, and one that is asked");
  for (const ApiInput& input : request.inputs)
    Check(input.is_ids ? !input.ids.empty() : !input.text.empty(), "an input is a text or tokens");
  const bool asks = !request.inputs.empty() || !request.ids.empty() || !request.question.empty();
  Check(asks, "a request asks for something");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const RouteRow& row = RouteRows()[data[0] % RouteRows().size()];
  const char* task = kTasks[data[1] % std::size(kTasks)];
  const std::string body(reinterpret_cast<const char*>(data) + 2, size - 2);
  FindRoute("GET", body);
  MethodsOf(body);
  if (!row.post) return 0;
  testing::Parses([&] {
    try {
      CheckRequest(ParseApiRequest(row.route, body, [&](const std::string&) { return task; }, {.inputs = kInputs}));
    } catch (const RequestError& error) {
      const HttpResponse response = ErrorResponse(error, IsOpenAi(row.route));
      Check(response.status == 400 || response.status == 422, "a wrong body is 400 or 422");
      throw;
    }
  });
  return 0;
}
