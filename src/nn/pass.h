// What one forward pass carries from block to block beside the hidden states.
#pragma once
#include <memory>
#include <vector>

#include "data/batch.h"
#include "ops/attention.h"
#include "ops/precision.h"
#include "ops/row_ops.h"

namespace lshformer {

struct Pass {
  const PackedBatch* batch = nullptr;
  bool train = false;                         // dropout on
  uint64_t seed = 42;                         // dropout
  uint64_t step = 0;                          // optimizer step: planes
  uint64_t dropout_step = 0;                  // step and micro step: dropout
  bool recompute_layers = false;              // keep the input of a layer alone, compute the rest again in the backward
  Precision precision = Precision::kFloat32;  // of the encoder's products
  std::shared_ptr<const RowIdentities> tokens;  // of every token
  AttentionCounts* counts = nullptr;
  std::vector<std::vector<torch::Tensor>>* attentions = nullptr;  // [layer][sequence] → [heads, n, n]
  std::shared_ptr<const PackedBatch> own_batch = nullptr;         // of a ReplayPass
};
Pass MakePass(const PackedBatch& batch);
// The same pass for layers that are computed again in the backward (ops/recompute.h): it outlives the batch, of which
// it has only what layers look at, and neither counts nor records.
Pass ReplayPass(const Pass& pass);

// Places with their own dropout stream; part of reproducibility, never renumber.
enum class DropoutSite : uint32_t { kEmbeddings = 0, kAttentionOutput = 1, kFeedForwardOutput = 2, kHead = 3 };
// Dropout of `rows` at one place of one layer; none outside training.
DropoutSpec PassDropout(const Pass& pass, double probability, uint32_t layer, DropoutSite site,
                        std::shared_ptr<const RowIdentities> rows);

}  // namespace lshformer
