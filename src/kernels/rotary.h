// Rotary positions (Su et al., arXiv:2104.09864) in Hugging Face's convention: number i of a head's first half turns
// with number i of its second half.
//
//   y_i = x_i cos a_i − x_{h+i} sin a_i,   y_{h+i} = x_{h+i} cos a_i + x_i sin a_i,   a_i = p · f_i
//
// for i < h = head_dim / 2, p the token's position in its sequence. As there frequencies and angles are float32, each
// step rounded to it: f_i = 1 / θ^(2i / head_dim) (linear: divided by the factor), a_i = p · f_i. (In double a position
// of 8,192 would be another by some 10⁻⁴, and the result is to be that of the models there are.)
//
//   none      θ as it is
//   linear    f_i / factor
//   dynamic   of a sequence longer than `original` tokens: θ · (factor · length / original − (factor − 1))^(d / (d−2)),
//             d = head_dim ("NTK"); others as none
//
// The gradient turns back: the same with −a_i. A token's numbers depend on its position (dynamic: and its sequence's
// length) alone, bit for bit, on any number of threads. Throws nothing: shapes are checked one level up. Work memory:
// none.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/bfloat16.h"
#include "kernels/packed_heads.h"

namespace lshformer {

enum class RotaryScaling { kNone, kLinear, kDynamic };

struct Rotary {
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1;     // of kLinear and kDynamic, at least 1
  int64_t original = 0;  // kDynamic: tokens of the longest sequence that θ is for

  bool operator==(const Rotary&) const = default;
  // Whether a sequence of so many tokens has frequencies of its own.
  bool Grows(int64_t length) const { return scaling == RotaryScaling::kDynamic && length > original; }
};

// Of a sequence of `length` tokens, [head_dim / 2].
std::vector<float> RotaryFrequencies(const Rotary& rotary, int head_dim, int64_t length);

// cos a_i and sin a_i of positions begin … end − 1: [end − begin, frequencies] each.
void WriteRotaryAngles(std::span<const float> frequencies, int64_t begin, int64_t end, float* cos, float* sin);

struct RotaryCall {
  int64_t tokens = 0;
  int heads = 0, head_dim = 0;                 // even
  HeadTensor<float> x;                         // turned in place
  std::span<const int32_t> positions;          // [tokens]: rows of cos and sin
  const float *cos = nullptr, *sin = nullptr;  // [positions there are, head_dim / 2]
  bool back = false;                           // by −a_i
  // With data: where the heads go, turned, and those behind them as they are, `plain` of them; all rounded to nearest
  // even. x stays as it is.
  HeadTensor<BFloat16> rounded = {};
  int plain = 0;
};
void Rotate(const RotaryCall& call);

}  // namespace lshformer
