// What comes out of an encoder, for the head that reads it.
#pragma once
#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "ops/torch.h"

namespace lshformer {

// Of all tokens of a batch, or of those alone that the head reads.
struct LastStates {
  torch::Tensor states;           // [T, H] or [tokens, H]
  std::vector<int64_t> tokens{};  // whose they are, ascending; empty: all
  // [wanted, H]; Error where the state of one was not computed.
  torch::Tensor Of(const std::vector<int64_t>& wanted) const;
};

std::vector<int64_t> FirstTokens(const PackedBatch& batch);  // of each sequence

// Rows of a matrix, in the given order; gradients are added back.
torch::Tensor RowsAt(const torch::Tensor& x, const std::vector<int64_t>& rows);

}  // namespace lshformer
