// A linear map of float32 through matrix tiles, its factors as sums of parts in bfloat16.
//
//   x = x₀ + x₁ + x₂, each the nearest bfloat16 to what is left: exact for 0 and 2⁻¹⁰⁰ ≤ |x| < 2¹²⁷. W alike.
//   six products    x₂W₀ + x₁W₁ + x₀W₂ + x₁W₀ + x₀W₁ + x₀W₀, left out: what is below 2⁻²⁴ of |x||W|
//   three           x₁W₀ + x₀W₁ + x₀W₀                                                   2⁻¹⁶
//   one             x₀W₀                                                                 2⁻⁸
//
// in this order, small terms first: while they are added up the sum is small too, and so is its rounding. A sum of K
// terms is rounded K / 32 times as a large number, where multiply-add rounds K times.
//
// A row of x with another number (smaller ones have no last part, larger ones round to infinity, and what is not finite
// has no parts) goes through oneDNN's multiply-add, and its result is what a program without tiles gives; so does a
// weight with one, for all rows. What decides is that row and the weight, so a row's result depends on nothing else. As
// everywhere in tiles, products below 2⁻¹²⁶ are 0.
//
// Memory: 6 bytes a weight whatever the number of products, since the parts are also what multiply-add's weight is made
// of when the first such row comes; then 4 more.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/cpu/matrix_tiles.h"
#include "ops/tile_linear.h"

namespace lshformer {

// products: 6, 3 or 1. Null where the weight has a number without parts.
std::unique_ptr<const TileLinear> MakeSplitLinear(int products, MatrixTiles tiles, const float* weight,
                                                  const float* bias, int64_t out, int64_t in);

}  // namespace lshformer
