// The time loop of an LSTM layer over packed sequences, forward and backward (Hochreiter and Schmidhuber 1997; gates in
// torch's order i, f, g, o).
//
//   [i f g o] = sums_t + W_hh·h_{t−1},   sums_t = W_ih·x_t + biases, which the caller makes
//   c_t = σ(f)∘c_{t−1} + σ(i)∘tanh(g),   h_t = σ(o)∘tanh(c_t)
//
// h and c begin as 0; a direction runs from a sequence's first row or from its last. Sequence b has the rows
// cu_seqlens[b] to cu_seqlens[b + 1]; sequences may be empty.
//
// Sequences are sorted by length and go through the loop eight at a time, each eight in each direction a task for one
// thread: a step is one small product and one pass over the gates, both in the cache. A row's result depends on its
// sequence alone, bit for bit. Throws nothing: shapes are checked one level up. Work memory: the recurrent weights in
// another order, and some rows for each thread.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

struct LstmDirection {
  int64_t units = 0;  // d
  bool from_last_row = false;
  const float* recurrent = nullptr;  // W_hh [4d, d]
  float* gates = nullptr;            // [T, 4d]: the sums; where cells are kept, then σ(i), σ(f), tanh(g), σ(o)
  float* cells = nullptr;            // c [T, d]; or nullptr: not kept
  float* hidden = nullptr;           // h [T, d]
  int64_t hidden_stride = 0;
};
// Directions of one number of sequences, which run side by side.
void RunLstm(std::span<const LstmDirection> directions, std::span<const int32_t> cu_seqlens);

struct LstmDirectionGradient {
  int64_t units = 0;
  bool from_last_row = false;
  const float* recurrent = nullptr;  // W_hh [4d, d]
  const float* gates = nullptr;      // as RunLstm left them
  const float* cells = nullptr;
  const float* grad_hidden = nullptr;  // [T, d]
  int64_t hidden_stride = 0;
  float* grad_sums = nullptr;  // [T, 4d]: by the sums that the gates are functions of
};
void RunLstmGradient(std::span<const LstmDirectionGradient> directions, std::span<const int32_t> cu_seqlens);

// before[t] = the h that W_hh multiplied at row t, 0 at a sequence's first step: W_hh's gradient is grad_sumsᵀ·before.
// hidden: [T, units] with row stride hidden_stride; before: [T, units], contiguous.
void HiddenBefore(const float* hidden, int64_t hidden_stride, int64_t units, bool from_last_row,
                  std::span<const int32_t> cu_seqlens, float* before);

}  // namespace lshformer
