#include "kernels/gather.h"

#include <algorithm>

#include "base/parallel.h"

namespace lshformer {
namespace {

constexpr int64_t kRows = 64;     // a piece of work
constexpr int64_t kColumns = 64;  // alike: whole cache lines

// For each row of the source the places where it went, ascending: places[starts[row]] to places[starts[row + 1]].
struct Places {
  Places(std::span<const int32_t> rows, int64_t source_rows) : starts(source_rows + 1), places(rows.size()) {
    for (const int32_t row : rows) ++starts[row + 1];
    for (int64_t row = 0; row < source_rows; ++row) starts[row + 1] += starts[row];
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (size_t i = 0; i < rows.size(); ++i) places[next[rows[i]]++] = static_cast<int64_t>(i);
  }
  std::span<const int64_t> Of(int64_t row) const {
    return std::span(places).subspan(starts[row], starts[row + 1] - starts[row]);
  }
  std::vector<int64_t> starts, places;
};

void SumRowsAt(const float* from, int64_t columns, std::span<const int64_t> rows, float* __restrict sum) {
  if (rows.empty()) {
    std::fill_n(sum, columns, 0.0f);
    return;
  }
  std::copy_n(from + rows[0] * columns, columns, sum);
  for (const int64_t row : rows.subspan(1)) {
    const float* __restrict added = from + row * columns;
    for (int64_t c = 0; c < columns; ++c) sum[c] += added[c];
  }
}

}  // namespace

void PickRows(const float* x, int64_t columns, std::span<const int32_t> rows, float* y) {
  ParallelFor(std::ssize(rows), kRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(x + rows[i] * columns, columns, y + i * columns);
  });
}

void SumPickedRows(const float* grad_y, int64_t columns, std::span<const int32_t> rows, int64_t source_rows,
                   float* grad_x) {
  const Places where(rows, source_rows);
  ParallelFor(source_rows, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) SumRowsAt(grad_y, columns, where.Of(row), grad_x + row * columns);
  });
}

// Each thread owns some columns, so the order of additions is that of the rows.
void AddRowsAt(const float* x, int64_t columns, std::span<const int32_t> targets, float* table) {
  ParallelFor(columns, kColumns, [&](int64_t begin, int64_t end) {
    for (size_t row = 0; row < targets.size(); ++row) {
      if (targets[row] < 0) continue;
      const float* source = x + static_cast<int64_t>(row) * columns;
      float* target = table + targets[row] * columns;
      for (int64_t c = begin; c < end; ++c) target[c] += source[c];
    }
  });
}

UsedRows FindUsedRows(std::span<const int32_t> ids, int32_t padding) {
  UsedRows used{{ids.begin(), ids.end()}, std::vector<int32_t>(ids.size())};
  std::sort(used.rows.begin(), used.rows.end());
  used.rows.erase(std::unique(used.rows.begin(), used.rows.end()), used.rows.end());
  std::erase(used.rows, padding);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto place = std::lower_bound(used.rows.begin(), used.rows.end(), ids[i]) - used.rows.begin();
    used.places[i] = ids[i] == padding ? -1 : static_cast<int32_t>(place);
  }
  return used;
}

void SumEmbeddings(const EmbeddingTables& tables, const EmbeddingRows& rows, float* sum) {
  const int64_t columns = tables.columns;
  ParallelFor(std::ssize(rows.words), kRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = sum + row * columns;
      std::copy_n(tables.words + rows.words[row] * columns, columns, to);
      const auto add = [&](const float* table, std::span<const int32_t> numbers) {
        if (table == nullptr) return;
        const float* from = table + numbers[row] * columns;
        for (int64_t c = 0; c < columns; ++c) to[c] += from[c];
      };
      add(tables.types, rows.types);
      add(tables.positions, rows.positions);
    }
  });
}

}  // namespace lshformer
