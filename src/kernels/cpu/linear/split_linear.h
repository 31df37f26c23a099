// Products of float32 through AMX tiles, their factors as sums of parts in bfloat16: a linear map for inference, and
// the products of training.
//
//   x ≈ x₀ + x₁, each the nearest bfloat16 to what is left. W alike.
//   three products  x₁W₀ + x₀W₁ + x₀W₀, left out: what is below 2⁻¹⁶ of |x||W|
//   one             x₀W₀                                          2⁻⁸
//
// in this order, stretch after stretch of the depth (kernels/cpu/amx/product.h). With three products a sum of K terms
// is rounded 3·K / 32 times, where multiply-add rounds K times.
//
// In a linear map a row of x with a number that is neither 0 nor 2⁻¹⁰⁰ ≤ |x| < 2¹²⁷ (a part of smaller ones may be less
// than tiles know, larger ones round to infinity, and what is not finite has no parts) goes through oneDNN's
// multiply-add, and its result is what a program without tiles gives; so does a weight with one, for all rows. What
// decides is that row and the weight, so a row's result depends on nothing else. As everywhere in tiles, products below
// 2⁻¹²⁶ are 0.
//
// Memory of a map: 6 bytes a weight whatever the number of products, its parts and what they leave of it, which is what
// multiply-add's weight is made of when the first such row comes; then 4 more.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/linear/amx_linear.h"

namespace lshformer {

// products: 3 or 1. Null where the weight has a number without parts.
std::unique_ptr<const AmxLinear> MakeSplitLinear(int products, AmxTiles tiles, const float* weight, const float* bias,
                                                 int64_t out, int64_t in);

// A product of training, of factors that lie either way round: as many products of parts as ProductsInTraining says,
// else Multiply. Both factors are split in each call. A row of the first factor that holds a number without parts goes
// through Multiply, as does the whole product where the second factor holds one, and of a weight's gradient the 1,024
// tokens among which there is one: the bits are Multiply's. Parts may be of any number below 2¹²⁷ here; of one below
// 2⁻¹⁰⁰ they are off by up to 2⁻¹²⁶ more. A row of c depends on that row of a alone (and on b), and a weight's gradient
// on the number of threads only where it is Multiply's. Work memory: both factors' parts, of 1,024 rows or tokens of a
// call, and the second's once more, packed.
void MultiplyInParts(const MatrixProduct& product);

}  // namespace lshformer
