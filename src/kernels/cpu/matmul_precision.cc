#include "kernels/matmul_precision.h"

#include <atomic>

#include "base/error.h"
#include "kernels/cpu/amx/amx_tiles.h"

namespace lshformer {
namespace {

std::atomic<MatmulPrecision> active = MatmulPrecision::kHighest;

// In multiply-adds of float32, of which a machine with tiles did 0.27 · 10¹² / 2 in a second (two cores, GEMM), where
// tiles did 5.8 · 10¹² / 2 in bfloat16, sums of 32 × 32 side by side.
constexpr double kTileMultiplyAdd = 0.27 / 5.8;
// What a row costs beside its products, counted in instructions: to split a number, 14 for 16 of them and the stores;
// to finish a sum, 4 for 16. A core does 25 multiply-adds of GEMM in a cycle, and two to three of these.
constexpr double kSplitNumber = 16, kFinishSum = 4;
constexpr int64_t kSide = 32;
// What training adds: a call packs its second factor, 6 for a number of each part, and turns the first one round where
// it lies by columns, 24 (timed beside GEMM on one core, AVX-512). The second factor's share of a row is counted for
// calls of so many rows: a row's bits must not depend on how many there are.
constexpr double kPackPart = 6, kTurnPart = 24, kRowsOfCall = 128;

double RoundedUp(int64_t count) { return static_cast<double>((count + kSide - 1) / kSide * kSide); }

// Of one row through tiles, against `inner` · `columns` of multiply-add.
double CostInAmxTiles(int products, int64_t inner, int64_t columns) {
  return products * RoundedUp(inner) * RoundedUp(columns) * kTileMultiplyAdd +
         static_cast<double>(inner) * kSplitNumber + static_cast<double>(columns) * kFinishSum;
}

// The same in training, where both factors are split in each call.
double CostInTraining(int products, const MatrixProduct& p) {
  const int parts = PartsOfProducts(products);
  const double rows = p.inner_is_tokens ? static_cast<double>(p.rows) : kRowsOfCall;
  const double second = (kSplitNumber + parts * kPackPart) * static_cast<double>(p.columns) / rows,
               turned = p.inner_is_tokens ? parts * kTurnPart : 0;
  return CostInAmxTiles(products, p.inner, p.columns) + static_cast<double>(p.inner) * (second + turned);
}

// So many, or 0 for kHighest and where `cost(products)` is not less than that of `inner` · `columns` of multiply-add.
template <class Cost>
int Chosen(MatmulPrecision precision, int64_t inner, int64_t columns, bool tiles, const Cost& cost) {
  if (!tiles || precision == MatmulPrecision::kHighest) return 0;
  const int products = precision == MatmulPrecision::kHigh ? 3 : 1;
  return cost(products) <= static_cast<double>(inner) * static_cast<double>(columns) ? products : 0;
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
MatmulPrecision ActiveMatmulPrecision() { return AmxTilesAreActive() ? active.load() : MatmulPrecision::kHighest; }

bool AmxTilesAreActive() { return ActiveAmxTiles() != AmxTiles::kNone; }

int PartsOfProducts(int products) { return products == 3 ? 2 : 1; }

int ProductsOfFloat32(MatmulPrecision precision, int64_t inner, int64_t columns, bool tiles) {
  return Chosen(precision, inner, columns, tiles,
                [&](int products) { return CostInAmxTiles(products, inner, columns); });
}

int ProductsInTraining(MatmulPrecision precision, const MatrixProduct& product, bool tiles) {
  return Chosen(precision, product.inner, product.columns, tiles,
                [&](int products) { return CostInTraining(products, product); });
}

}  // namespace lshformer
