#include "train/gradient_tree.h"

#include "base/error.h"
#include "train/gradient.h"

namespace lshformer {

torch::Tensor AddGradients(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  const torch::NoGradGuard no_grad;
  const bool rows = a.layout() == torch::kSparse, other_rows = b.layout() == torch::kSparse;
  if (rows && other_rows) return AddRowGradients(a, b);
  if (rows || other_rows) Fail("a gradient of {}: dense in one part and by rows in another", c10::str(a.sizes()));
  return torch::Tensor(a).add_(b);
}

namespace {

void Plus(GradientNode& left, GradientNode& right) {
  for (size_t i = 0; i < left.gradients.size(); ++i)
    left.gradients[i] = AddGradients(left.gradients[i], right.gradients[i]);
}

}  // namespace

void GradientTree::Add(GradientNode node) { AddNode(nodes_, std::move(node), Plus); }

std::vector<torch::Tensor> GradientTree::TakeTotal() {
  SumNodes(nodes_, Plus);
  if (nodes_.empty()) return {};
  return std::exchange(nodes_, {}).front().gradients;
}

}  // namespace lshformer
