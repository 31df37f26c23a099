#include "kernels/nearest.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <mutex>

#include "base/parallel.h"
#include "base/signals.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/search/nearest.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

// A sum of lanes and the columns behind them. One function for all, so that no two copies are compiled to other bits.
HWY_NOINLINE float WholeProduct(const Vector& sum, const float* row, const float* query, int64_t begin,
                                int64_t columns) {
  float whole = hn::GetLane(hn::SumOfLanes(Tag(), sum));
  for (int64_t i = begin; i < columns; ++i) whole += query[i] * row[i];
  return whole;
}

// Four rows at once keep the multipliers busy, two queries halve the loads. Every pair has one sum of its own, so that
// its bits are those that it has alone. `of[i]`: the rows, of which some may be the same; products [kQueries][4].
template <int kQueries>
void Block(const float* const* of, const float* query, int64_t columns, float* products) {
  constexpr Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float *HWY_RESTRICT row0 = of[0], *HWY_RESTRICT row1 = of[1], *HWY_RESTRICT row2 = of[2],
                            *HWY_RESTRICT row3 = of[3];
  const float* HWY_RESTRICT next = query + columns;
  Vector a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  int64_t i = 0;
  for (; i + lanes <= columns; i += lanes) {
    const Vector r0 = hn::LoadU(d, row0 + i), r1 = hn::LoadU(d, row1 + i), r2 = hn::LoadU(d, row2 + i),
                 r3 = hn::LoadU(d, row3 + i), q = hn::LoadU(d, query + i);
    a0 = hn::MulAdd(q, r0, a0), a1 = hn::MulAdd(q, r1, a1), a2 = hn::MulAdd(q, r2, a2), a3 = hn::MulAdd(q, r3, a3);
    if constexpr (kQueries > 1) {
      const Vector p = hn::LoadU(d, next + i);
      b0 = hn::MulAdd(p, r0, b0), b1 = hn::MulAdd(p, r1, b1), b2 = hn::MulAdd(p, r2, b2), b3 = hn::MulAdd(p, r3, b3);
    }
  }
  products[0] = WholeProduct(a0, of[0], query, i, columns), products[1] = WholeProduct(a1, of[1], query, i, columns);
  products[2] = WholeProduct(a2, of[2], query, i, columns), products[3] = WholeProduct(a3, of[3], query, i, columns);
  if constexpr (kQueries > 1) {
    products[4] = WholeProduct(b0, of[0], next, i, columns), products[5] = WholeProduct(b1, of[1], next, i, columns);
    products[6] = WholeProduct(b2, of[2], next, i, columns), products[7] = WholeProduct(b3, of[3], next, i, columns);
  }
}

void QueryProducts(const VectorRows& rows, const float* queries, int64_t count, float* products) {
  for (int64_t row = 0; row < rows.rows; row += 4) {
    const float* of[4];
    const int64_t here = std::min<int64_t>(4, rows.rows - row);
    for (int64_t i = 0; i < 4; ++i) of[i] = rows.data + (row + std::min(i, here - 1)) * rows.stride;
    for (int64_t query = 0; query < count; query += 2) {
      float block[8];
      const float* first = queries + query * rows.columns;
      const int64_t wide = std::min<int64_t>(2, count - query);
      if (wide == 2)
        Block<2>(of, first, rows.columns, block);
      else
        Block<1>(of, first, rows.columns, block);
      for (int64_t q = 0; q < wide; ++q)
        std::copy(block + 4 * q, block + 4 * q + here, products + (query + q) * rows.rows + row);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {

HWY_EXPORT(QueryProducts);

void QueryProducts(const VectorRows& rows, const float* queries, int64_t count, float* products) {
  HWY_DYNAMIC_DISPATCH(QueryProducts)(rows, queries, count, products);
}

namespace {

constexpr int64_t kQueriesAtOnce = 64;       // whose products of a piece a thread keeps
constexpr int64_t kPieceBytes = 128 * 1024;  // of rows that stay in the cache while queries pass

bool Better(const NearRow& a, const NearRow& b) { return a.score > b.score || (a.score == b.score && a.row < b.row); }

// The best that one query has met, the worst of them in front.
class Kept {
 public:
  explicit Kept(size_t most) : most_(most) {}
  // Below it nothing is kept any more.
  float least() const { return heap_.size() < most_ ? -std::numeric_limits<float>::infinity() : heap_.front().score; }
  void Add(const NearRow& found) {
    if (heap_.size() < most_) {
      heap_.push_back(found);
      std::push_heap(heap_.begin(), heap_.end(), Better);
    } else if (Better(found, heap_.front())) {
      std::pop_heap(heap_.begin(), heap_.end(), Better);
      heap_.back() = found;
      std::push_heap(heap_.begin(), heap_.end(), Better);
    }
  }
  std::vector<NearRow> Sorted() && {
    std::sort(heap_.begin(), heap_.end(), Better);
    return std::move(heap_);
  }

 private:
  size_t most_;
  std::vector<NearRow> heap_;
};

// Where the groups [begin, end) begin, and where the last ends.
struct Groups {
  std::span<const int64_t> begins;
  int64_t rows;
  int64_t count() const { return begins.empty() ? rows : std::ssize(begins) - 1; }
  int64_t operator[](int64_t group) const { return begins.empty() ? group : begins[static_cast<size_t>(group)]; }
};

// Takes the best row of every group out of the products of rows from `first_row` on, those above `least`.
template <class Take>
void TakeBest(const Groups& groups, int64_t begin, int64_t end, int64_t first_row, const float* products, float least,
              const Take& take) {
  for (int64_t group = begin; group < end; ++group) {
    NearRow best{-1, -std::numeric_limits<float>::infinity()};
    for (int64_t row = groups[group]; row < groups[group + 1]; ++row) {
      const float score = products[row - first_row];
      if (score > best.score || (best.row < 0 && score == best.score)) best = {row, score};
    }
    if (best.row >= 0 && best.score >= least) take(best);
  }
}

}  // namespace

std::vector<std::vector<NearRow>> NearestGroups(const VectorRows& rows, std::span<const int64_t> group_begins,
                                                std::span<const float> queries, int most) {
  const Groups groups{group_begins, rows.rows};
  const auto count = static_cast<int64_t>(queries.size()) / std::max<int64_t>(rows.columns, 1);
  std::vector<Kept> kept(static_cast<size_t>(count), Kept(static_cast<size_t>(most)));
  std::vector<std::mutex> locks(static_cast<size_t>(count));
  const int64_t at_once = std::max<int64_t>(16, kPieceBytes / (4 * std::max<int64_t>(rows.stride, 1)));
  const auto search = [&](int64_t begin, int64_t end) {
    ThrowIfStopped("searching");
    std::vector<float> products;
    for (int64_t next = begin; begin < end; begin = next) {
      // Whole groups, at least one: a document longer than a piece stands alone.
      for (next = begin + 1; next < end && groups[next + 1] - groups[begin] <= at_once;) ++next;
      const int64_t first = groups[begin];
      const VectorRows piece{rows.data + first * rows.stride, groups[next] - first, rows.columns, rows.stride};
      for (int64_t query = 0; query < count; query += kQueriesAtOnce) {
        const int64_t some = std::min(kQueriesAtOnce, count - query);
        products.resize(static_cast<size_t>(some * piece.rows));
        QueryProducts(piece, queries.data() + query * rows.columns, some, products.data());
        for (int64_t q = 0; q < some; ++q) {
          const auto number = static_cast<size_t>(query + q);
          const std::lock_guard<std::mutex> lock(locks[number]);
          Kept& best = kept[number];
          TakeBest(groups, begin, next, first, products.data() + q * piece.rows, best.least(),
                   [&](const NearRow& row) { best.Add(row); });
        }
      }
    }
  };
  const int64_t all = groups.count();
  ParallelFor(all, std::max<int64_t>(1, std::min<int64_t>(4096, all / (4 * Threads()) + 1)), search);
  std::vector<std::vector<NearRow>> results;
  for (Kept& each : kept) results.push_back(std::move(each).Sorted());
  return results;
}

}  // namespace lshformer
#endif
