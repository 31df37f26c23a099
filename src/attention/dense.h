// Exact attention: every query meets every key.
#pragma once
#include <cstdint>

namespace lshformer {

template <class Struct>
struct OptionTable;  // base/option_table.h
struct AttentionSpec;

struct DenseAttention {
  static constexpr const char* kName = "dense";
  static constexpr bool kSparse = false;
  static constexpr bool kSharesKeys = false;

  bool operator==(const DenseAttention&) const = default;
};

const OptionTable<AttentionSpec>& Options(const DenseAttention&);
int64_t ShortestSparse(const DenseAttention&);
int64_t ShortestToPlan(const DenseAttention&);
double ScaleOfScores(const DenseAttention&, int head_dim);

}  // namespace lshformer
