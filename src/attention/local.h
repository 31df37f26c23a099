// Local attention: every query meets the keys of a window around its own position, exactly. Semantics:
// docs/attention.md. What a layer of a pretrained model computes, not an approximation of it.
#pragma once
#include <cstdint>

namespace lshformer {

template <class Struct>
struct OptionTable;  // base/option_table.h
struct AttentionSpec;

// The window is AttentionSpec::window: query i meets the keys i − window … i + window of its sequence.
struct LocalAttention {
  static constexpr const char* kName = "local";
  static constexpr bool kSparse = false;  // its exact form is all it has
  static constexpr bool kSharesKeys = false;

  bool operator==(const LocalAttention&) const = default;
};

const OptionTable<AttentionSpec>& Options(const LocalAttention&);
int64_t ShortestSparse(const LocalAttention&);
int64_t ShortestToPlan(const LocalAttention&);
double ScaleOfScores(const LocalAttention&, int head_dim);

// Pairs of a sequence of `length` tokens that lie in windows: Σ_i of the keys i − window … i + window that there are.
int64_t PairsInWindows(int64_t window, int64_t length);

}  // namespace lshformer
