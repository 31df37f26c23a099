// y = x · Wᵀ + b over packed rows.
#pragma once
#include <memory>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

// One linear map, or several of the same input side by side (query, key and value: one product instead of three).
// x: [rows, in]; weights: [out_i, in]; biases: [out_i]; y: [rows, Σ out_i]. float32, contiguous.
//
// A row of y depends on that row of x alone, bit for bit (ops/matmul.h). Without gradients the weights are used in
// oneDNN's own layout, packed on the first call and again whenever a weight's version counter or storage changed or a
// call with gradients came between. Whoever writes weights through raw pointers outside of training steps must bump
// the version counter. Safe to call from several threads.
class Linear {
 public:
  Linear(std::vector<torch::Tensor> weights, std::vector<torch::Tensor> biases);
  torch::Tensor operator()(const torch::Tensor& x) const;

 private:
  struct Packed;
  std::shared_ptr<const Packed> FindPacked() const;
  std::vector<torch::Tensor> weights_, biases_;
  struct Cache;
  std::shared_ptr<Cache> cache_;
};

// The same through torch alone: the oracle.
torch::Tensor LinearReference(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias);

}  // namespace lshformer
