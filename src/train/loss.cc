#include "train/loss.h"

namespace lshformer {

TrainingLoss HeadLoss() {
  TrainingLoss loss;
  loss.items = [](Model& model, std::span<const PackedBatch> update) {
    std::vector<TermItems> items;
    for (const PackedBatch& batch : update) items.push_back(LossItems(model.task(), batch.labels));
    return items;
  };
  loss.terms = [](Model& model, const PackedBatch& batch, ForwardOptions options) {
    options.head_only = true;
    return model.Forward(batch, options).terms;
  };
  return loss;
}

}  // namespace lshformer
