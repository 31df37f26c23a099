// Rows that are computed alone, shared among threads.
#pragma once
#include <cstdint>

#include "base/parallel.h"

namespace lshformer {

template <class OfRow>
void ForEachRow(int64_t rows, const OfRow& of_row) {
  constexpr int64_t kRows = 16;  // per piece of work: some ten microseconds
  ParallelFor(rows, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) of_row(row);
  });
}

}  // namespace lshformer
