// What several processes cost: their messages alone, and a masked-LM step by its parts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "dist/communicator.h"

namespace lshformer {

struct BenchDistOptions {
  MeetingOptions meeting;
  std::string model_type;                              // "": the first of the table of families
  std::string config_name;                             // config.json or a folder that has one; "": the defaults
  std::string config_overrides;                        // changes to it
  std::vector<int64_t> sizes{4096, 1 << 20, 1 << 24};  // bytes that each process has for the others
  int length = 128, total_batch_size = 64, per_device_train_batch_size = 8, gradient_shards = 16, runs = 5;
  bool shard_optimizer = false;
  uint64_t seed = 42;
};

// A call of all processes. {"processes", "messages": [{"bytes", "all_gather_ms", "all_to_all_ms", "all_to_all_gbps"}],
// "barrier_ms", "step": {"parameters", "tokens", "forward_backward_ms", "exchange_ms", "update_ms", "bytes_sent",
// "messages", "ring_bytes", "sequences_per_second"}}: times are medians of rank 0's, bytes and messages those that it
// sends in a step, ring_bytes what a ring's all-reduce would: 2 · (p − 1) / p · 4 · parameters. Null at other ranks.
// Where there is one process nothing is sent.
Json RunBenchDist(const BenchDistOptions& options);

}  // namespace lshformer
