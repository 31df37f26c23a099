// The inner loops of skip-gram with negative sampling (Mikolov et al. 2013; text/words/skip_gram.h), in the widest
// vectors the processor has, on the calling thread. Rows are kRowMultiple · n numbers long. Throws nothing; no work
// memory.
#pragma once
#include <cstdint>

namespace lshformer {

inline constexpr int64_t kRowMultiple = 16;

// products[j] = Σ_d row[d] · others[j][d]
void RowProducts(const float* row, const float* const* others, int64_t count, int64_t length, float* products);

// In place of products u·v the steps along the gradient of log σ(u·v) of the first, a pair from the text, and of
// log σ(−u·v) of the others, which are drawn:
//   steps[j] = rate · (label_j − σ(products[j])),   label = 1, 0, 0, …
void LogisticSteps(float rate, int64_t count, float* steps);

// sum[d] += Σ_j factors[j · stride] · rows[j][d], one j after another
void AddWeightedRows(const float* const* rows, const float* factors, int64_t stride, int64_t count, int64_t length,
                     float* sum);

// row[d] += change[d]
void AddToRow(const float* change, int64_t length, float* row);

}  // namespace lshformer
