// A bidirectional LSTM layer over packed sequences, by the formulas of kernels/lstm.h with
//
//   sums_t = W_ih·x_t + b_ih + b_hh
//
// The forward direction runs from a sequence's first row, the backward one from its last.
#pragma once
#include <cstdint>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

struct LstmWeights {
  torch::Tensor input;           // [4d, in]
  torch::Tensor recurrent;       // [4d, d]
  torch::Tensor input_bias;      // [4d]
  torch::Tensor recurrent_bias;  // [4d]; undefined: none
};

// x: [T, in] → [T, 2d], the forward direction's h first. float32. Sequence b has the rows cu_seqlens[b] to
// cu_seqlens[b + 1]; sequences may be empty. A sequence's rows do not depend on the others or on the number of threads,
// bit for bit; nor do gradients of x. For the backward five numbers per row and unit are kept: the gates and c.
torch::Tensor BiLstm(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens, const LstmWeights& forward,
                     const LstmWeights& backward);
// Sequence by sequence through libtorch's own LSTM, for any floating type: the oracle.
torch::Tensor BiLstmReference(const torch::Tensor& x, const std::vector<int32_t>& cu_seqlens,
                              const LstmWeights& forward, const LstmWeights& backward);

}  // namespace lshformer
