// The readable oracle: docs/attention.md in double precision, one row of scores at a time. Slow (tokens²) and plain on
// purpose; the fast kernels are tested against it, `attention --reference` runs it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/execution.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"

namespace lshformer::ref {

// Contiguous [tokens, heads, head_dim].
struct Inputs {
  AttentionShape shape;
  AttentionSpec spec;
  std::span<const double> query, key, value;  // no key where the kind shares keys
  double scale = 1;
  // [heads, hashes or rounds, tokens]; unused by exact attention, no key_buckets where keys are shared; clustered:
  // groups and clusters, [heads, tokens]
  std::span<const int32_t> query_buckets, key_buckets;
  AttentionDropout dropout;
};

struct Outputs {
  std::vector<double> out;  // [tokens, heads, head_dim]
  std::vector<double> lse;  // [tokens, heads]
  int64_t pairs_total = 0, pairs_computed = 0;
};

struct Gradients {
  std::vector<double> query, key, value;  // [tokens, heads, head_dim]; no key where keys are shared
};

Outputs Forward(const Inputs& in);
Gradients Backward(const Inputs& in, std::span<const double> grad_out);
// Each kind's own oracle, which the two above find by the kind of in.spec; Reformer's and clustered's are in
// files of their own.
Outputs Forward(const DenseAttention&, const Inputs& in);
Gradients Backward(const DenseAttention&, const Inputs& in, std::span<const double> grad_out);
Outputs Forward(const LocalAttention&, const Inputs& in);
Gradients Backward(const LocalAttention&, const Inputs& in, std::span<const double> grad_out);
Outputs Forward(const SimHashAttention& simhash, const Inputs& in);
Gradients Backward(const SimHashAttention& simhash, const Inputs& in, std::span<const double> grad_out);

// FindBuckets (kernels/hashing.h) of in.query and in.key, by each kind's own oracle; none of exact attention.
Buckets FindBuckets(const Inputs& in, const Projections& projections);
// The hash of HashQueriesAndKeys with dot products in double: it differs where a float dot product rounds across 0.
Buckets Hash(const Inputs& in, const SimHashPlanes& planes);

}  // namespace lshformer::ref
