// What a server is told: one row an option (options.cc), which is a flag of `serve` and, where the row of
// kServeVariables has one, a variable of the environment.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "base/option_table.h"
#include "kernels/precision.h"

namespace lshformer {

struct ServeOptions {
  std::vector<std::string> folders = {};  // a model each
  std::vector<std::string> names = {};    // of the models, in the order of the folders; none: the folders' own names
  std::vector<std::string> tasks = {};    // likewise, or one for all; none: what each folder's "architectures" say

  std::string host = "127.0.0.1";
  int port = 3000;  // 0: any that is free
  std::string api_key = {};
  std::string cors_allow_origin = {};  // origins with commas between, or "*"
  double request_timeout = 30;         // seconds
  double stop_timeout = 30;            // seconds

  int64_t max_concurrent_requests = 512;  // inputs
  int64_t max_batch_tokens = 16384;
  int64_t max_client_batch_size = 32;
  int64_t payload_limit = 2'000'000;  // bytes
  bool auto_truncate = false;
  std::string pooling = {};  // "": the folder's, or mean
  std::string default_prompt_name = {};
  bool enable_inspect = false;

  Precision precision = Precision::kFloat32;
  AttentionChanges attention = {};
  bool json_log = false;  // a line of JSON a request
};

const OptionTable<ServeOptions>& ServeTable();

// Names by which people who come from Text Embeddings Inference set options, where no flag does.
struct ServeVariable {
  const char *variable, *option;
};
std::span<const ServeVariable> ServeVariables();

// OptionError where what must hold between options does not.
void CheckServeOptions(const ServeOptions& options);

}  // namespace lshformer
