// Clustered attention as docs/attention.md tells it, query by query; the clustered half of ref/attention.h.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/ref/attention.h"

namespace lshformer::ref {

// Inputs::query_buckets are the bundles of queries, those of a group one after another (without bundles: the groups),
// key_buckets the clusters of keys, [heads, tokens].
Outputs Forward(const ClusteredAttention& clustered, const Inputs& in);
Gradients Backward(const ClusteredAttention& clustered, const Inputs& in, std::span<const double> grad_out);

// The forward of `in` with the constants of another call: means of groups, weights of keys and the choice of clusters
// are those of `held`, which differs in query and key alone. Backward is the gradient of this, at in = held.
Outputs ForwardHolding(const ClusteredAttention& clustered, const Inputs& in, const Inputs& held);

// Probabilities [length, length] of one sequence under one head; what a centroid gets is shared out to those of its
// keys that the query does not meet itself, by their weights.
std::vector<double> ClusteredProbabilities(const ClusteredAttention& clustered, const Inputs& in, int sequence,
                                           int head);

// The share of exact attention's probability that lies on keys which the queries meet themselves: the mean over the
// queries of one sequence under one head.
double MassMet(const Inputs& in, int sequence, int head);

// GroupByHalving with products in double: it differs where two are almost equal.
Buckets GroupByHalving(const Inputs& in, const ClusterDirections& directions);

}  // namespace lshformer::ref
