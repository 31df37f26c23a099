// Reversible residual layers (Gomez et al., "The Reversible Residual Network", 2017; Reformer, §3): two streams,
//
//   y1 = x1 + F(x2),   y2 = x2 + G(y1)      and back      x2 = y2 − G(y1),   x1 = y1 − F(x2)
//
// The backward rebuilds every layer's input from its output, so that only the last pair is kept, whatever the number of
// layers: 16 bytes a token and column.
//
// The streams are rebuilt exactly. They hold multiples of 2⁻³² in doubles, and what is added to them is rounded to such
// multiples first, so that sums below 2²¹ are exact and a difference takes back what a sum added, bit for bit. F and G
// see the streams as floats. So nothing drifts with depth: the backward sees the activations that the forward saw, and
// LSH attention finds the same buckets again without keeping them. Beyond 2²¹ (floats there are 1/4 apart) the streams
// are rebuilt to a relative 2⁻⁵³ a layer.
#pragma once
#include <functional>
#include <vector>

#include "ops/recompute.h"

namespace lshformer {

struct ReversibleLayer {
  RowFunction f, g;  // [T, H] → [T, H]
};

// Both streams begin as x [T, H]; the result is the mean of the last two, [T, H]. `visit` is given that mean after each
// layer, outside of any graph. One backward a forward: it uses up what was kept.
torch::Tensor RunReversible(const torch::Tensor& x, const std::vector<ReversibleLayer>& layers,
                            const std::function<void(const torch::Tensor& mean)>& visit = {});

// The same through torch's own graph, in which every layer keeps what it stores: the oracle.
torch::Tensor RunReversibleReference(const torch::Tensor& x, const std::vector<ReversibleLayer>& layers);

}  // namespace lshformer
