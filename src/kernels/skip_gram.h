// The inner loops of text/words/skip_gram.cc, in the widest vectors the processor has. Rows are multiples of
// kRowMultiple long.
#pragma once
#include <cstdint>

namespace lshformer {

inline constexpr int64_t kRowMultiple = 16;

// products[j] = Σ_d row[d] · others[j][d]
void RowProducts(const float* row, const float* const* others, int64_t count, int64_t length, float* products);

// sum[d] += Σ_j factors[j · stride] · rows[j][d], one j after another
void AddWeightedRows(const float* const* rows, const float* factors, int64_t stride, int64_t count, int64_t length,
                     float* sum);

}  // namespace lshformer
