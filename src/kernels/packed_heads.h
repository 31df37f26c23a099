// Packed sequences under several heads: the shape and the layout that all of attention shares.
//
// Sequence b is the tokens cu_seqlens[b] … cu_seqlens[b + 1] − 1; a sequence may be empty.
#pragma once
#include <cstdint>
#include <span>

namespace lshformer {

struct AttentionShape {
  std::span<const int32_t> cu_seqlens;  // [sequences + 1], starts at 0
  int heads = 0;
  int head_dim = 0;    // 1 … 256
  int first_head = 0;  // which of its layer's heads the first is: what random numbers are drawn from
  int sequences() const { return static_cast<int>(cu_seqlens.size()) - 1; }
  int64_t tokens() const { return cu_seqlens.back(); }
  int64_t longest() const;  // tokens of the longest sequence
};

// A [tokens, heads, head_dim] tensor; the numbers of a head lie one after another.
template <class T>
struct HeadTensor {
  T* data = nullptr;
  int64_t token_stride = 0;  // elements
  int64_t head_stride = 0;
  T* at(int64_t token, int head) const { return data + token * token_stride + head * head_stride; }
};

}  // namespace lshformer
