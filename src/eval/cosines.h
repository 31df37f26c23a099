// How near vectors lie: two of them, two sets row by row, the texts of two runs of a model.
#pragma once
#include <cstddef>
#include <vector>

#include "models/model.h"
#include "ops/torch.h"

namespace lshformer {

// Of [H] and [H], float64: a·b / (‖a‖ ‖b‖). Not a number where one is 0; rounding may leave it a little above 1.
double Cosine(const torch::Tensor& a, const torch::Tensor& b);

struct Cosines {
  double mean = 1, worst = 1;
  double spread = 0;  // the standard error of the mean over the texts; NaN of one text
};
// Between rows of the same number; at most 1. A row of zeros is like nothing: 0.
Cosines Compare(const torch::Tensor& a, const torch::Tensor& b);

// How near a second run over the same batches comes to the first: the cosine of the means of each sequence's last
// hidden states, at most 1. Where one of the two is 0 it is 1 if both are, else 0. Of the first run the means alone are
// kept, in float32.
class StateCosines {
 public:
  void Keep(const PackedBatch& batch, const ModelOutput& output);
  // Error naming the sequence where a mean is not finite.
  void Compare(const PackedBatch& batch, const ModelOutput& output);
  double mean() const { return sum_ / static_cast<double>(compared_); }
  double worst() const { return worst_; }

 private:
  std::vector<torch::Tensor> kept_;  // [H] each
  size_t compared_ = 0;
  double sum_ = 0, worst_ = 1;
};

}  // namespace lshformer
