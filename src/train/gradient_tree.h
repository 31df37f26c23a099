// The sum of the gradients of an update's parts, in the order of ops/sum_tree.h: nodes are what whole processes can
// make alone.
#pragma once
#include <utility>
#include <vector>

#include "ops/sum_tree.h"
#include "ops/torch.h"

namespace lshformer {

struct GradientNode {
  int first = 0, count = 1;              // parts
  std::vector<torch::Tensor> gradients;  // [parameters]: undefined where there is none, dense, or sparse by rows, each
                                         // once and ascending
};

// a + b, made in the memory of a where both are dense. One that is not there is no zero: the other is the sum.
torch::Tensor AddGradients(const torch::Tensor& a, const torch::Tensor& b);

class GradientTree {
 public:
  // Behind those before it.
  void Add(GradientNode node);
  // The nodes that found no neighbour yet, in order.
  std::vector<GradientNode> TakeNodes() { return std::exchange(nodes_, {}); }
  // The sum of all; no gradients where there are no nodes.
  std::vector<torch::Tensor> TakeTotal();

 private:
  std::vector<GradientNode> nodes_;
};

}  // namespace lshformer
