#include "models/last_states.h"

#include <algorithm>

#include "base/error.h"

namespace lshformer {

torch::Tensor RowsAt(const torch::Tensor& x, const std::vector<int64_t>& rows) {
  return x.index_select(0, torch::tensor(rows, torch::kInt64));
}

std::vector<int64_t> FirstTokens(const PackedBatch& batch) {
  return {batch.tokens.cu_seqlens.begin(), batch.tokens.cu_seqlens.end() - 1};
}

torch::Tensor LastStates::Of(const std::vector<int64_t>& wanted) const {
  if (tokens.empty()) return RowsAt(states, wanted);
  if (tokens == wanted) return states;
  std::vector<int64_t> rows;
  for (const int64_t token : wanted) {
    const auto found = std::lower_bound(tokens.begin(), tokens.end(), token);
    if (found == tokens.end() || *found != token) Fail("the last state of token {} was not computed", token);
    rows.push_back(found - tokens.begin());
  }
  return RowsAt(states, rows);
}

}  // namespace lshformer
