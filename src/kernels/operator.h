// The attention operator by itself, checked: tensors of any strides and a spec in, results and counts out, without
// libtorch and without a model. What `attention`, `bench` and the layers of models call, and what other languages bind.
//
//   OperatorCall call;
//   call.spec = &spec;                                   // ParseAttentionSpec, from JSON
//   call.tokens = 7, call.shape = {cu_seqlens, 12, 64};
//   call.query = {q, 12 * 64, 64}; …                     // where they lie: data, strides of tokens and of heads
//   call.out = {out, 12 * 64, 64}; call.lse = lse;       // the caller's memory
//   const OperatorResult result = RunOperator(call);
//   RunOperatorBackward({call, result.planned, …});      // the same call, with the plan that its forward made
//
// Everything is checked before anything is written; what is wrong is an Error of one line that begins with `where` and
// names the tensor. Results are those of BuildPlan and RunAttentionForward, bit for bit.
#pragma once
#include <cstdint>
#include <string_view>

#include "attention/spec.h"
#include "base/bfloat16.h"
#include "kernels/counts.h"
#include "kernels/execution.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"
#include "kernels/plan.h"

namespace lshformer {

inline constexpr int kLargestHeadDim = 256, kMostHeads = 65536;

// Error unless heads and head_dim are in range and cu_seqlens are offsets that begin at 0, ascend and end at `tokens`,
// the rows of queries. A caller that needs the sequences' lengths before it has all of a call asks for this first.
void CheckShape(const AttentionShape& shape, int64_t tokens, std::string_view where);

struct OperatorCall {
  const AttentionSpec* spec = nullptr;
  int64_t tokens = 0;  // rows of every tensor
  AttentionShape shape = {};
  // [tokens, heads, head_dim], none overlapping an output; no key where the kind shares keys. Inputs may overlap one
  // another. Strides are not negative; those of an output keep its numbers apart.
  HeadTensor<const float> query = {}, key = {}, value = {};
  HeadTensor<float> out = {};
  float* lse = nullptr;  // [tokens, heads], contiguous
  // In place of query, key and value, or of out: AttentionForward says when. Without a backward.
  HeadTensor<const BFloat16> rounded_query = {}, rounded_key = {}, rounded_value = {};
  HeadTensor<BFloat16> rounded_out = {};
  Operands operands = Operands::kFloat32;
  // probability in [0, 1); sequence_ids [sequences], or empty: their places in the batch
  AttentionDropout dropout = {};

  // What queries and keys are told apart by: `buckets`, or what is found with `projections`, or with those drawn from
  // (spec->seed, layer, head, step). Of dense attention neither.
  uint32_t layer = 0;
  uint64_t step = 0;
  const Projections* projections = nullptr;  // as many as Suffice, and whole
  const Buckets* buckets = nullptr;          // of the sizes FindBuckets has, each below its sequence's number of them

  bool keep_buckets = false;             // OperatorResult::buckets is filled in
  bool count = true;                     // OperatorResult::counts is: for some plans as much work as the plan
  std::string_view where = "attention";  // whom errors speak of
};

struct OperatorResult {
  PlannedAttention planned;  // for the backward
  Buckets buckets;
  AttentionCounts counts;  // selection_flops is 0 where buckets were given
};

OperatorResult RunOperator(const OperatorCall& call);
// The same but the forward itself: what it would compute, for a backward that has no plan any more, or for the counts
// alone. Checks and reads all but the value and the outputs.
OperatorResult PlanOperator(const OperatorCall& call);

struct OperatorBackwardCall {
  const OperatorCall& forward;      // whose out and lse have been written
  const PlannedAttention& planned;  // by the forward of this very call
  HeadTensor<const float> grad_out;
  HeadTensor<float> grad_query, grad_key, grad_value;  // overwritten; no grad_key where the kind shares keys
};
void RunOperatorBackward(const OperatorBackwardCall& call);

// Error unless there are as many projections as the call's sequences ask for, all of their numbers are there, and
// coefficients and directions are such as are drawn. Nothing is asked where no sequence needs any.
void CheckProjections(const OperatorCall& call, const Projections& projections);
// Error unless each bucket is one of those that its sequence has.
void CheckBuckets(const OperatorCall& call, const Buckets& buckets);

}  // namespace lshformer
