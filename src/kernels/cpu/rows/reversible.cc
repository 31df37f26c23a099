#include "kernels/reversible.h"

#include "base/parallel.h"

namespace lshformer {
namespace {

constexpr double kGrid = 1.5 * (1 << 20);
constexpr int64_t kPiece = 1 << 15;  // elements a thread takes at a time

double OnGrid(float x) { return (static_cast<double>(x) + kGrid) - kGrid; }

template <class OfElement>
void ForEachElement(int64_t count, const OfElement& of_element) {
  ParallelFor(count, kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) of_element(i);
  });
}

}  // namespace

void ToStream(const float* x, int64_t count, double* stream) {
  ForEachElement(count, [=](int64_t i) { stream[i] = OnGrid(x[i]); });
}
void AddToStream(const float* x, int64_t count, double* stream) {
  ForEachElement(count, [=](int64_t i) { stream[i] += OnGrid(x[i]); });
}
void TakeFromStream(const float* x, int64_t count, double* stream) {
  ForEachElement(count, [=](int64_t i) { stream[i] -= OnGrid(x[i]); });
}
void StreamToFloat(const double* stream, int64_t count, float* x) {
  ForEachElement(count, [=](int64_t i) { x[i] = static_cast<float>(stream[i]); });
}
void MeanOfStreams(const double* first, const double* second, int64_t count, float* mean) {
  ForEachElement(count, [=](int64_t i) { mean[i] = static_cast<float>(0.5 * (first[i] + second[i])); });
}

}  // namespace lshformer
