#include "train/gradient_tree.h"

#include "base/error.h"
#include "train/gradient.h"

namespace lshformer {
namespace {

// Whether b makes a node with a, which lies before it.
bool MakesNode(int a_first, int a_count, int b_count) { return a_count == b_count && a_first % (2 * a_count) == 0; }

}  // namespace

torch::Tensor AddGradients(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  const torch::NoGradGuard no_grad;
  const bool rows = a.layout() == torch::kSparse, other_rows = b.layout() == torch::kSparse;
  if (rows && other_rows) return AddRowGradients(a, b);
  if (rows || other_rows) Fail("a gradient of {}: dense in one part and by rows in another", c10::str(a.sizes()));
  return torch::Tensor(a).add_(b);
}

void GradientTree::Add(GradientNode node) {
  nodes_.push_back(std::move(node));
  while (nodes_.size() > 1) {
    GradientNode& left = nodes_[nodes_.size() - 2];
    const GradientNode& right = nodes_.back();
    if (!MakesNode(left.first, left.count, right.count)) return;
    for (size_t i = 0; i < left.gradients.size(); ++i)
      left.gradients[i] = AddGradients(left.gradients[i], right.gradients[i]);
    left.count += right.count;
    nodes_.pop_back();
  }
}

std::vector<torch::Tensor> GradientTree::TakeTotal() {
  while (nodes_.size() > 1) {
    GradientNode right = std::move(nodes_.back());
    nodes_.pop_back();
    std::vector<torch::Tensor>& left = nodes_.back().gradients;
    for (size_t i = 0; i < left.size(); ++i) left[i] = AddGradients(left[i], right.gradients[i]);
  }
  if (nodes_.empty()) return {};
  return std::exchange(nodes_, {}).front().gradients;
}

std::vector<std::pair<int, int>> NodesOf(int begin, int end) {
  std::vector<std::pair<int, int>> nodes;
  for (int part = begin; part < end; ++part) {
    nodes.emplace_back(part, 1);
    while (nodes.size() > 1 &&
           MakesNode(nodes[nodes.size() - 2].first, nodes[nodes.size() - 2].second, nodes.back().second)) {
      nodes[nodes.size() - 2].second *= 2;
      nodes.pop_back();
    }
  }
  return nodes;
}

}  // namespace lshformer
