// The oracle of kernels/sequences.h in double, sequence by sequence.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer::ref {

struct Convolution {
  std::span<const int32_t> cu_seqlens;
  int64_t channels = 0, width = 0;
  std::span<const double> x, taps;  // [T, channels], [width, channels]
};
std::vector<double> Convolve(const Convolution& in);
struct ConvolutionGradients {
  std::vector<double> x, taps;
};
ConvolutionGradients ConvolveGradient(const Convolution& in, std::span<const double> grad_y);

struct SegmentMaxima {
  std::vector<double> y;      // [segments, columns]
  std::vector<int32_t> rows;  // the first that has it
};
SegmentMaxima MaxOfSegments(std::span<const int32_t> cu_segments, int64_t columns, std::span<const double> x);

struct PoolingInputs {
  std::span<const int32_t> cu_seqlens;
  int64_t columns = 0;
  std::span<const double> scores, x;
};
std::vector<double> SoftmaxPooling(const PoolingInputs& in);
struct PoolingGradients {
  std::vector<double> scores, x;
};
PoolingGradients SoftmaxPoolingGradient(const PoolingInputs& in, std::span<const double> grad_y);

}  // namespace lshformer::ref
