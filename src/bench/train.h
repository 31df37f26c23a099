// Masked-LM steps on random ids, 15 % of them labelled, timed: forward, backward and AdamW. Models of words, which have
// no such head, answer questions of 12 words about contexts of so many as a length says.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "jobs/measure.h"
#include "kernels/precision.h"

namespace lshformer {

struct BenchTrainOptions {
  std::string model_type;                     // "": the first of the table of families
  std::string config_name;                    // config.json or a folder that has one; "": the defaults
  std::vector<std::string> config_overrides;  // each a model; empty: the config as it is
  bool gradient_checkpointing = false;
  std::vector<std::string> attention;  // each a variant; empty: the config's own
  AttentionChanges lsh;
  std::vector<Precision> precisions{Precision::kFloat32};
  std::vector<int> lengths{128, 512};
  int batch_size = 8, runs = 5;
  bool probe_machine = true;
  uint64_t seed = 42;
};

// Rows as ModelRow of bench/model.h, and "layers", "reversible", "gradient_checkpointing", "chunk_size_feed_forward",
// "activation_bytes": tensors alive at once in a forward and backward beside weights, gradients and optimizer state.
BenchResult RunBenchTrain(const BenchTrainOptions& options);

}  // namespace lshformer
