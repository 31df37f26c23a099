#include "serve/options.h"

#include "base/error.h"

namespace lshformer {

const OptionTable<ServeOptions>& ServeTable() {
  using O = ServeOptions;
  constexpr int64_t kMost = int64_t{1} << 24;
  static const OptionTable<O> table{
      {Text("host", &O::host, "address to listen on; 0.0.0.0: all of this machine's").Group("Address"),
       Integer("port", &O::port, 0, 65535, "port; 0: any that is free, which is printed").Group("Address"),
       Text("api_key", &O::api_key, "what requests have to bring as Authorization: Bearer KEY").Group("Address"),
       Text("cors_allow_origin", &O::cors_allow_origin, "origins whose pages may call, with commas between; *: all")
           .Group("Address"),
       Number("request_timeout", &O::request_timeout, {.low = 0, .high = 86400, .low_open = true},
              "seconds for a request to come and for its answer to be taken")
           .Group("Address"),
       Number("stop_timeout", &O::stop_timeout, {.low = 0, .high = 86400},
              "seconds after SIGTERM in which what was accepted is finished")
           .Group("Address"),
       Integer("max_concurrent_requests", &O::max_concurrent_requests, 1, kMost, "inputs accepted at once; more: 429"),
       Integer("max_batch_tokens", &O::max_batch_tokens, 1, kMost,
               "tokens a forward call; a longer text stands alone, answers do not depend on it"),
       Integer("max_client_batch_size", &O::max_client_batch_size, 1, kMost, "inputs of one request; more: 422"),
       Integer("payload_limit", &O::payload_limit, 1, int64_t{1} << 30, "bytes of a request's body; more: 413"),
       Boolean("auto_truncate", &O::auto_truncate, "longer texts are cut unless a request says otherwise"),
       Names("pooling", &O::pooling, {"cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"},
             "embeddings: how a text's states become a vector; else as the folder says, or mean")
           .OrNone()
           .Group("Answers"),
       Text("default_prompt_name", &O::default_prompt_name,
            "the folder's prompt that stands before each text unless a request names another")
           .Group("Answers"),
       Boolean("enable_inspect", &O::enable_inspect, "POST /inspect: what attention looks at, of short texts")
           .Group("Answers")},
      nullptr,
      {},
      "Limits"};
  return table;
}

std::span<const ServeVariable> ServeVariables() {
  static constexpr ServeVariable kVariables[] = {{"PORT", "port"},
                                                 {"API_KEY", "api_key"},
                                                 {"CORS_ALLOW_ORIGIN", "cors_allow_origin"},
                                                 {"MAX_CONCURRENT_REQUESTS", "max_concurrent_requests"},
                                                 {"MAX_BATCH_TOKENS", "max_batch_tokens"},
                                                 {"MAX_CLIENT_BATCH_SIZE", "max_client_batch_size"},
                                                 {"PAYLOAD_LIMIT", "payload_limit"},
                                                 {"AUTO_TRUNCATE", "auto_truncate"},
                                                 {"POOLING", "pooling"},
                                                 {"DEFAULT_PROMPT_NAME", "default_prompt_name"}};
  return kVariables;
}

void CheckServeOptions(const ServeOptions& options) {
  if (options.folders.empty()) FailUsage("DIR: expected the folder of a model");
  if (options.host.empty()) FailOption("host", "expected an address, got \"\"; 0.0.0.0 is all of this machine's");
  if (!options.names.empty() && options.names.size() != options.folders.size())
    FailOption("served_model_name", "expected one for each of {} models, got {}", options.folders.size(),
               options.names.size());
  for (const std::string& name : options.names)
    if (name.empty()) FailOption("served_model_name", "expected a name, got \"\"");
  if (options.tasks.size() > 1 && options.tasks.size() != options.folders.size())
    FailOption("task", "expected one for all or one for each of {} models, got {}", options.folders.size(),
               options.tasks.size());
  if (options.max_client_batch_size > options.max_concurrent_requests)
    FailOption("max_client_batch_size", "expected at most {} ({}), got {}", options.max_concurrent_requests,
               Marked("max_concurrent_requests"), options.max_client_batch_size);
}

}  // namespace lshformer
