// How near two sets of vectors lie, row by row.
#pragma once
#include "ops/torch.h"

namespace lshformer {

struct Cosines {
  double mean = 1, worst = 1;
  double spread = 0;  // the standard error of the mean over the texts; NaN of one text
};
// Between rows of the same number.
Cosines Compare(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace lshformer
