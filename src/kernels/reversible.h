// The streams of reversible residual layers (Gomez et al. 2017): sums that a difference takes back bit for bit.
//
//   grid(x) = (x + 1.5·2²⁰) − 1.5·2²⁰, in double
//
// A stream is an array of doubles that hold multiples of 2⁻³², the distance of doubles in [2²⁰, 2²¹), and what is added
// is rounded to such multiples first. So sums below 2²¹ are exact. An x beyond ±2¹⁹ leaves that range: to a coarser
// grid, whose numbers are multiples of 2⁻³² too, or to a finer one, where it stays what it is, being as a float a
// multiple of 2⁻⁴. Sums beyond 2²¹ are taken back to a relative 2⁻⁵³.
//
// Element by element; the number of threads changes nothing. Throws nothing. Work memory: none.
#pragma once
#include <cstdint>

namespace lshformer {

void ToStream(const float* x, int64_t count, double* stream);        // stream = grid(x)
void AddToStream(const float* x, int64_t count, double* stream);     // stream += grid(x)
void TakeFromStream(const float* x, int64_t count, double* stream);  // stream −= grid(x)
void StreamToFloat(const double* stream, int64_t count, float* x);   // x = stream, rounded
void MeanOfStreams(const double* first, const double* second, int64_t count,
                   float* mean);  // ½(first + second), rounded

}  // namespace lshformer
