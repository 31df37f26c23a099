// The time loop of an LSTM layer over packed sequences, forward and backward (Highway); formulas in lstm.h.
//
// Sequences are sorted by length and go through the loop eight at a time, each eight in each direction a task for one
// thread: a step is one small product and one pass over the gates, both in the cache. A row's result depends on its
// sequence alone, bit for bit. Work memory: the recurrent weights in another order, and some rows for each thread.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

struct LstmDirection {
  int64_t units = 0;
  bool from_last_row = false;
  const float* recurrent = nullptr;  // W_hh [4d, d]
  float* gates = nullptr;   // [T, 4d]: W_ih·x and the biases; where cells are kept, then σ(i), σ(f), tanh(g), σ(o)
  float* cells = nullptr;   // c [T, d]; or nullptr: not kept
  float* hidden = nullptr;  // h [T, d]
  int64_t hidden_stride = 0;
};
// cu_seqlens: the sequences' borders, as everywhere.
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

}  // namespace lshformer
