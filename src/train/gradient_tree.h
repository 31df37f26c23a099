// The sum of the gradients of an update's parts, always in the same order:
//
//   sum(a, a + n) = sum(a, a + m) + sum(a + m, a + n),   m the largest power of two below n
//
// A node is one that whole processes can make alone: 2^k parts from a multiple of 2^k on. Neighbours are added up as
// soon as they make a node again, and what is left in the end (the parts are no power of two) from the right.
#pragma once
#include <span>
#include <utility>
#include <vector>

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

// The nodes, as (first, count), that the parts [begin, end) come to.
std::vector<std::pair<int, int>> NodesOf(int begin, int end);

}  // namespace lshformer
