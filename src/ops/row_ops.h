// Row-wise operations with gradients: activation functions, dropout, layer normalisation, embedding sums, gathering.
//
// Every tensor is [rows, columns], float32. A row's result depends on that row alone, bit for bit. Each op has a twin
// written with torch alone, ending in Reference, for any floating type: the oracle of the tests.
#pragma once
#include <memory>
#include <vector>

#include "kernels/functions.h"
#include "ops/token_split.h"
#include "ops/torch.h"

namespace lshformer {

torch::Tensor Apply(UnaryFunction function, const torch::Tensor& x);
torch::Tensor ApplyReference(UnaryFunction function, const torch::Tensor& x);

// Who a row is: what dropout masks are drawn from.
struct RowIdentities {
  std::vector<uint64_t> sequence_ids;
  std::vector<int32_t> positions;
};
struct DropoutSpec {
  double probability = 0;  // 0: none; `rows` may then be null
  uint64_t key = 0;        // StreamKey(…, Purpose::kHiddenDropout)
  std::shared_ptr<const RowIdentities> rows;
};

torch::Tensor Dropout(const torch::Tensor& x, const DropoutSpec& dropout);
// 0 or 1 / (1 − p) per element: what the ops above and below multiply with.
torch::Tensor DropoutFactorsReference(const DropoutSpec& dropout, int64_t columns);

// LayerNorm(residual + dropout(x)); `residual` may be undefined: none. split: as for Linear (ops/linear.h), of γ and β.
// Without gradients and dropout the result takes the memory of an x that nobody else holds.
torch::Tensor DropoutAddLayerNorm(torch::Tensor x, const torch::Tensor& residual, const torch::Tensor& gamma,
                                  const torch::Tensor& beta, double eps, const DropoutSpec& dropout,
                                  const TokenSplitPtr& split = nullptr);
torch::Tensor DropoutAddLayerNormReference(const torch::Tensor& x, const torch::Tensor& residual,
                                           const torch::Tensor& gamma, const torch::Tensor& beta, double eps,
                                           const torch::Tensor& factors);

// The indices of one batch into the three tables; all of length [rows] and in range (checked by the caller).
struct EmbeddingIndices {
  std::vector<int32_t> words, positions, types;
  int32_t padding_word = -1, padding_position = -1;  // these rows of their tables get no gradient
};
// words[w] + positions[p] + types[t] → [rows, columns]; of positions and types a table that is undefined adds nothing,
// and its indices are not looked at.
//
// The gradient by `words`, a leaf, has torch's sparse layout: one row for each word of the batch, ascending, the same
// bits for any number of threads. Its size is that of the batch, not of the vocabulary. Where another op adds a dense
// gradient to it (a decoder tied to the table), torch's engine adds these rows to that.
torch::Tensor EmbeddingSum(const torch::Tensor& words, const torch::Tensor& positions, const torch::Tensor& types,
                           std::shared_ptr<const EmbeddingIndices> indices);
torch::Tensor EmbeddingSumReference(const torch::Tensor& words, const torch::Tensor& positions,
                                    const torch::Tensor& types, const EmbeddingIndices& indices);

// table[ids] → [ids.size(), columns]; ids are in range (checked by the caller). The gradient by the table, a leaf, is
// as EmbeddingSum's by `words`: sparse, the same bits for any number of threads, none for the row `padding`.
torch::Tensor LookUp(const torch::Tensor& table, std::vector<int32_t> ids, int32_t padding);
torch::Tensor LookUpReference(const torch::Tensor& table, const std::vector<int32_t>& ids, int32_t padding);

}  // namespace lshformer
