// The attention operator (kernels/operator.h) on tensors of torch: what torch.ops.lshformer.… compute on the CPU.
//
// query, key, value [tokens, heads, head_dim] of one type, a head's numbers side by side, any strides of tokens and
// heads, read where they lie; no key where the kind shares keys. Sequences are ranges of tokens, cu_seqlens int32
// [sequences + 1].
//   float32    the fast kernels, the bits of the command `attention`
//   bfloat16   products of factors so rounded, where the CPU has the instructions, else of float32; sums in float32,
//              results rounded. Read where they lie in AMX tiles by kinds that only multiply, else widened first.
//   float64    the readable oracle, in time and memory of tokens²: to check gradients by
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "tensors.h"

namespace lshformer::extension {

using OptionalTensor = std::optional<Tensor>;

// Output of the inputs' shape and type, contiguous; lse [tokens, heads], of float32, or float64 with such inputs.
//
// seed, step and layer: hyperplanes, rotations and directions are drawn from (the spec's seed, layer, step), the mask
// of dropout from (seed, step, layer). Directions [heads, head_dim, any depth], float32, go before drawn ones.
std::tuple<Tensor, Tensor> Attention(const Tensor& query, const OptionalTensor& key, const Tensor& value,
                                     const Tensor& cu_seqlens, const std::string& spec, int64_t seed, double dropout,
                                     int64_t layer, int64_t step, const OptionalTensor& key_directions,
                                     const OptionalTensor& query_directions);

// Gradients of query, key and value, contiguous; that of the key is empty where the kind shares keys. The plan is made
// again, to the same bits.
std::tuple<Tensor, Tensor, Tensor> AttentionBackward(const Tensor& grad_output, const Tensor& query,
                                                     const OptionalTensor& key, const Tensor& value,
                                                     const Tensor& output, const Tensor& lse, const Tensor& cu_seqlens,
                                                     const std::string& spec, int64_t seed, double dropout,
                                                     int64_t layer, int64_t step, const OptionalTensor& key_directions,
                                                     const OptionalTensor& query_directions);

// int64 [4]: pairs_total, pairs_computed, hash_flops, attention_flops of a forward, which does not run.
Tensor Plan(const Tensor& query, const OptionalTensor& key, const Tensor& cu_seqlens, const std::string& spec,
            int64_t layer, int64_t step, const OptionalTensor& key_directions, const OptionalTensor& query_directions);

}  // namespace lshformer::extension
