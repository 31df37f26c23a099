#include "train/listwise_loss.h"

#include <vector>

#include "base/error.h"

namespace lshformer {

torch::Tensor ListwiseLossOf(const torch::Tensor& scores, const torch::Tensor& labels,
                             std::span<const int32_t> borders) {
  std::vector<torch::Tensor> losses;
  for (size_t query = 0; query + 1 < borders.size(); ++query) {
    const auto part = [&](const torch::Tensor& of) { return of.slice(0, borders[query], borders[query + 1]); };
    losses.push_back(-(torch::softmax(part(labels), 0) * torch::log_softmax(part(scores), 0)).sum());
  }
  return torch::stack(losses).mean();
}

torch::Tensor ListScores(Model& model, const PackedBatch& batch, const ForwardOptions& forward) {
  PackedBatch asked = batch;
  asked.labels = {};
  return model.Forward(asked, forward).logits.flatten().to(torch::kFloat64);
}

TrainingLoss ListwiseLoss() {
  TrainingLoss loss;
  loss.items = [](Model&, std::span<const PackedBatch> update) {
    std::vector<TermItems> items;
    for (const PackedBatch& batch : update) items.push_back({batch.examples()});
    return items;
  };
  loss.terms = [](Model& model, const PackedBatch& batch, ForwardOptions forward) {
    forward.head_only = true;
    const torch::Tensor labels = torch::tensor(batch.labels.values, torch::kFloat64);
    return std::vector{ListwiseLossOf(ListScores(model, batch, forward), labels, batch.labels.cu_choices)};
  };
  return loss;
}

}  // namespace lshformer
