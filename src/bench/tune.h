// Measures from which length on hashing beats a model's exact attention on this machine, and writes it into the config.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "base/json.h"
#include "bench/tuned_lengths.h"
#include "kernels/execution.h"
#include "models/config.h"

namespace lshformer {

inline constexpr int kFewestTuneRuns = 5;  // with less nothing is beyond doubt (crossing.h)

struct TuneOptions {
  std::string model_name_or_path;          // its config.json is all that is needed
  std::string direction = "both";          // or "forward", "forward_backward"
  int max_length = 0;                      // 0: the position table, at most 16384 tokens
  int runs = 21;                           // of each form at a length, at most; fewer where they take long
  bool dry_run = false;                    // write nothing
  Operands operands = Operands::kFloat32;  // what query, key and value are multiplied in
  AttentionChanges attention = {};
  uint64_t seed = 42;
};

struct TuneResult {
  std::vector<Tuned> tuned;
  ModelConfig config;    // with the lengths found
  Json machine;          // as DescribeMachine
  Operands operands;     // as asked
  std::string where;     // both in a line
  std::string written;   // the config's path; "" with dry_run
  bool trained = false;  // the folder holds weights, whose answers may change with what is sparse
};

TuneResult RunTune(const TuneOptions& options);
// {"machine", "dtype", "heads", "head_dim", "crossings", "attention", "written"}.
Json ToJson(const TuneResult& result);

}  // namespace lshformer
