// The oracle of kernels/lstm.h: one direction in double, sequence by sequence and step by step.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer::ref {

struct LstmInputs {
  int64_t units = 0;
  bool from_last_row = false;
  std::span<const int32_t> cu_seqlens;
  std::span<const double> recurrent, sums;  // [4d, d], [T, 4d]
};
struct LstmResult {
  std::vector<double> hidden, cells, gates;  // [T, d], [T, d], [T, 4d]: σ(i), σ(f), tanh(g), σ(o)
  std::vector<double> before;                // [T, d] h of the step before
};
LstmResult RunLstm(const LstmInputs& in);

struct LstmGradients {
  std::vector<double> sums, recurrent;
};
// Of Σ hidden · grad_hidden.
LstmGradients RunLstmGradient(const LstmInputs& in, std::span<const double> grad_hidden);

}  // namespace lshformer::ref
