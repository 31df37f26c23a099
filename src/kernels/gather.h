// Rows of tables by their numbers (embeddings, what was computed once for each distinct word), and the sums of rows
// that are their gradients. Matrices are [rows, columns], contiguous.
//
// Every sum runs in the order that is stated here, whatever the number of threads: the same bits. Throws nothing:
// numbers of rows are checked one level up. Work memory of SumPickedRows: 8 bytes a row of either side.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer {

// y[i] = x[rows[i]]
void PickRows(const float* x, int64_t columns, std::span<const int32_t> rows, float* y);
// Its gradient: grad_x[n] = Σ_{i: rows[i] = n} grad_y[i], i ascending; 0 where no row was picked. [source_rows,
// columns]
void SumPickedRows(const float* grad_y, int64_t columns, std::span<const int32_t> rows, int64_t source_rows,
                   float* grad_x);

// table[targets[i]] += x[i], i ascending; a negative target stands for no row.
void AddRowsAt(const float* x, int64_t columns, std::span<const int32_t> targets, float* table);

// The rows of a table that `ids` pick, for a gradient that holds no others.
struct UsedRows {
  std::vector<int32_t> rows;    // ascending, each once, without the row `padding`
  std::vector<int32_t> places;  // of each id in `rows`: targets for AddRowsAt; −1 of `padding`
};
UsedRows FindUsedRows(std::span<const int32_t> ids, int32_t padding);

// The sum of the rows of each token: (words[w] + types[t]) + positions[p], without the tables that are nullptr.
struct EmbeddingTables {
  int64_t columns = 0;
  const float *words = nullptr, *types = nullptr, *positions = nullptr;
};
struct EmbeddingRows {
  std::span<const int32_t> words, types, positions;  // of one length; those of no table are not looked at
};
void SumEmbeddings(const EmbeddingTables& tables, const EmbeddingRows& rows, float* sum);

}  // namespace lshformer
