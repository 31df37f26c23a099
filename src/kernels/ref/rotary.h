// The oracle of kernels/rotary.h: its formulas, frequencies and angles rounded as they say, the rest in double.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/rotary.h"

namespace lshformer::ref {

// The angle by which number i of a head turns at a position of a sequence of `length` tokens.
double RotaryAngle(const Rotary& rotary, int head_dim, int64_t length, int64_t position, int i);

// x: [tokens, heads, head_dim], contiguous; every token's angles are [head_dim / 2].
std::vector<double> Rotate(std::span<const double> x, std::span<const double> angles, int heads, int head_dim);

}  // namespace lshformer::ref
