// A bidirectional LSTM layer (ops/lstm.h) under the names that torch.nn.LSTM gives its parameters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "nn/forward_context.h"
#include "nn/parameters.h"
#include "ops/lstm.h"

namespace lshformer {

struct BiLstmShape {
  int64_t input, hidden;
  int64_t layer = 0;         // of those that are called `prefix`
  bool second_bias = false;  // torch's bias_hh, which adds nothing that bias_ih cannot
};

class BiLstmLayer {
 public:
  // "<prefix>.weight_ih_l<layer>" [4 · hidden, input], "<prefix>.weight_hh_l<layer>" [4 · hidden, hidden],
  // "<prefix>.bias_ih_l<layer>" and, with second_bias, "<prefix>.bias_hh_l<layer>"; then those that end in "_reverse".
  // Drawn as torch draws them, uniform in ±1/√hidden.
  static void AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix, const BiLstmShape& shape,
                          const std::string& block, const std::string& reason);
  BiLstmLayer(const ParameterMap& parameters, const std::string& prefix, const BiLstmShape& shape);
  torch::Tensor operator()(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens) const;  // → [T, 2 · hidden]

 private:
  LstmWeights forward_, backward_;
};

}  // namespace lshformer
