// What one text takes of this machine: estimates from a config alone, and from what a fifth of a second measures.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/config.h"

namespace lshformer {

// How fast this machine is at a model's shapes, on all threads, in float32.
struct SpeedProbe {
  double gemm_gflops = 0;                                          // the feed-forward's first map
  std::vector<std::pair<std::string, double>> attention_gflops{};  // by kind, counted as kernels/cost.h does
};
SpeedProbe ProbeSpeed(const ModelConfig& config);

struct TextEstimate {
  int64_t length = 0;  // tokens
  double seconds = 0;  // of a forward without a head
  double bytes = 0;    // of a process with the model, while it reads the text
};
// seconds = linear FLOPs / rate · 1.15 (LayerNorm, activation and what else passes over the rows) + Σ attention FLOPs /
// rate of its kind. bytes = this process now + weights as they lie in the file and packed + activations + a layer's
// plan. Other work on the machine makes it too long: 1.4x at 512 tokens was seen, 2x beyond 4,096.
std::vector<TextEstimate> EstimateTexts(const ModelConfig& config, const SpeedProbe& probe, int64_t parameters,
                                        const std::vector<int64_t>& lengths);

// {"threads", "gemm_gflops", "attention_gflops": {kind: …}, "texts": [{"length", "beyond_positions", "seconds",
// "bytes"}]}; null of a model without encoder layers.
Json EstimatesJson(const ModelConfig& config, int64_t parameters, const std::vector<int64_t>& lengths);

}  // namespace lshformer
