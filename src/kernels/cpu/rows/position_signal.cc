#include "kernels/position_signal.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace lshformer {

void WritePositionSignal(int64_t length, int64_t width, float* signal) {
  const int64_t half = width / 2;
  const double step = std::log(1e4) / static_cast<double>(std::max<int64_t>(1, half - 1));
  ParallelFor(length, /*grain=*/64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * std::exp(-static_cast<double>(i) * step);
        signal[t * width + i] = static_cast<float>(std::sin(angle));
        signal[t * width + half + i] = static_cast<float>(std::cos(angle));
      }
      if (width % 2 != 0) signal[t * width + width - 1] = 0;
    }
  });
}

}  // namespace lshformer
