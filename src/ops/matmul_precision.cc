#include "ops/matmul_precision.h"

#include <atomic>

#include "base/error.h"
#include "kernels/cpu/matrix_tiles.h"

namespace lshformer {
namespace {

std::atomic<MatmulPrecision> active = MatmulPrecision::kHighest;

// In multiply-adds of float32, of which a machine with tiles did 0.27 · 10¹² / 2 in a second (two cores, GEMM), where
// tiles did 5.8 · 10¹² / 2 in bfloat16, sums of 32 × 32 side by side.
constexpr double kTileMultiplyAdd = 0.27 / 5.8;
// What a row costs beside its products, counted in instructions: to split a number, 14 for 16 of them and three stores;
// to finish a sum, 4 for 16. A core does 25 multiply-adds of GEMM in a cycle, and two to three of these.
constexpr double kSplitNumber = 16, kFinishSum = 4;
// Six products are as accurate as multiply-add, but take memory of 6 bytes a weight: not for less than this.
constexpr double kLeastGain = 1.3;
constexpr int64_t kSide = 32;

double RoundedUp(int64_t count) { return static_cast<double>((count + kSide - 1) / kSide * kSide); }

// Of one row through tiles, against `inner` · `columns` of multiply-add.
double CostInTiles(int products, int64_t inner, int64_t columns) {
  return products * RoundedUp(inner) * RoundedUp(columns) * kTileMultiplyAdd +
         static_cast<double>(inner) * kSplitNumber + static_cast<double>(columns) * kFinishSum;
}

}  // namespace

const char* Name(MatmulPrecision precision) {
  switch (precision) {
    case MatmulPrecision::kHighest:
      break;
    case MatmulPrecision::kHigh:
      return "high";
    case MatmulPrecision::kMedium:
      return "medium";
  }
  return "highest";
}

MatmulPrecision ParseMatmulPrecision(const std::string& name) {
  for (const MatmulPrecision precision :
       {MatmulPrecision::kHighest, MatmulPrecision::kHigh, MatmulPrecision::kMedium}) {
    if (name == Name(precision)) return precision;
  }
  FailUsage("expected highest, high or medium, got \"{}\"", Shown(name));
}

void SetMatmulPrecision(MatmulPrecision precision) { active = precision; }
MatmulPrecision ActiveMatmulPrecision() {
  return ActiveMatrixTiles() == MatrixTiles::kNone ? MatmulPrecision::kHighest : active.load();
}

int ProductsOfFloat32(MatmulPrecision precision, int64_t inner, int64_t columns, bool tiles) {
  if (!tiles) return 0;
  const int products = precision == MatmulPrecision::kHighest ? 6 : precision == MatmulPrecision::kHigh ? 3 : 1;
  const double gain = precision == MatmulPrecision::kHighest ? kLeastGain : 1;
  const double multiply_add = static_cast<double>(inner) * static_cast<double>(columns);
  return gain * CostInTiles(products, inner, columns) <= multiply_add ? products : 0;
}

}  // namespace lshformer
