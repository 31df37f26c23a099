// Exact search among vectors: which rows have the largest dot products with a query.
//
//   score(q, r) = Σ_d q[d] · r[d]                        float32, one order of summation per pair of q and r
//   score(q, G) = max over the rows r of group G         a group is the rows of one document
//
// A pass reads the rows once for all queries, on all threads. It has no index to build: the time is that of reading
// the rows from memory, where there are few queries. Work memory: some hundred KiB a thread and the results.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer {

// Rows of float32 as they lie in memory, `stride` floats from one to the next.
struct VectorRows {
  const float* data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
};

struct NearRow {
  int64_t row = 0;
  float score = 0;
};

// products[q · rows + r] = score(queries[q], r), on the calling thread. queries: [count, columns]. Bits do not depend
// on which rows and queries are asked for together.
void QueryProducts(const VectorRows& rows, const float* queries, int64_t count, float* products);

// For each query the `most` groups with the largest scores, less where there are fewer, the largest first, of equals
// the smaller row: each as its best row, of equals the first. group_begins: [groups + 1] ascending, from 0 to
// rows.rows; empty: every row is a group. A score that is not a number is none. queries: [count, columns].
// Interrupted after a signal. The result does not depend on the number of threads.
std::vector<std::vector<NearRow>> NearestGroups(const VectorRows& rows, std::span<const int64_t> group_begins,
                                                std::span<const float> queries, int most);

}  // namespace lshformer
