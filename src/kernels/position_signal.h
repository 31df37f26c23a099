// The sinusoidal signal of positions (Vaswani et al. 2017), in the order of columns that tensor2tensor and QANet have:
//
//   signal[t, i] = sin(t · f_i),   signal[t, half + i] = cos(t · f_i),   f_i = 10000^(−i / max(1, half − 1))
//
// for i < half = width / 2; an odd width's last column is 0. In double, then rounded. The number of threads changes
// nothing. Throws nothing; no work memory.
#pragma once
#include <cstdint>

namespace lshformer {

void WritePositionSignal(int64_t length, int64_t width, float* signal);  // [length, width]

}  // namespace lshformer
