// The software model of the tile instructions.
#include <hwy/base.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/cpu/amx/amx_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lshformer {
namespace {

struct Tile {
  uint8_t bytes[kAmxTileSide][kAmxTileRowBytes];  // zeros beyond the tile's shape
};

struct ThreadTiles {
  bool configured = false;
  AmxTileShapes shapes;
  alignas(64) Tile tiles[kAmxTileCount];
};

ThreadTiles& Own() {
  thread_local ThreadTiles tiles;
  return tiles;
}

[[noreturn]] void Illegal(const char* what) { throw std::logic_error(std::string("AMX tiles: ") + what); }

Tile& Configured(int tile) {
  ThreadTiles& own = Own();
  if (!own.configured || own.shapes.rows[tile] == 0) Illegal("a tile that is not configured");
  return own.tiles[tile];
}

// Of a product C += A · B: M rows, N columns, K words along a row of A.
struct ProductShape {
  int rows, columns, words;
};
ProductShape ShapeOf(int c, int a, int b) {
  const AmxTileShapes& shapes = Own().shapes;
  const ProductShape shape{shapes.rows[c], shapes.row_bytes[c] / 4, shapes.row_bytes[a] / 4};
  if (c == a || c == b || a == b) Illegal("a product needs three tiles");
  if (shapes.rows[a] != shape.rows || shapes.rows[b] != shape.words || shapes.row_bytes[b] / 4 != shape.columns ||
      shapes.row_bytes[a] % 4 != 0 || shapes.row_bytes[b] % 4 != 0 || shapes.row_bytes[c] % 4 != 0)
    Illegal("shapes that do not fit");
  return shape;
}

uint32_t Word(const Tile& tile, int row, int column) {
  uint32_t word;
  std::memcpy(&word, tile.bytes[row] + 4 * column, sizeof(word));
  return word;
}
float LowNumber(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float HighNumber(uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000); }

double WithoutSubnormals(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0, x) : x; }

// A double, rounded to 24 bits whatever its exponent; then below 2⁻¹²⁶ it is 0, and from 2¹²⁸ on infinite.
float RoundedToFloat(double x) {
  if (!std::isfinite(x) || x == 0) return static_cast<float>(x);
  constexpr int kDropped = 53 - 24;
  auto bits = std::bit_cast<uint64_t>(x);
  bits += (uint64_t{1} << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  bits = bits >> kDropped << kDropped;
  const auto rounded = std::bit_cast<double>(bits);
  if (std::fabs(rounded) < 0x1p-126) return static_cast<float>(std::copysign(0.0, x));
  if (std::fabs(rounded) >= 0x1p128) return static_cast<float>(std::copysign(HUGE_VAL, x));
  return static_cast<float>(rounded);
}

// a + b rounded to odd: where double cannot hold the sum, of the two doubles around it the one whose last bit is 1. To
// round that once more, to far fewer bits, gives what rounding the sum would have given (Boldo and Melquiond, 2008).
double SumRoundedToOdd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double of_b = sum - a, error = (a - (sum - of_b)) + (b - of_b);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

// C[row] += Σ_k A[row][k] B[k], every step by itself.
void MultiplyRow(const Tile& a, const Tile& b, int row, const ProductShape& shape, Tile& c) {
  for (int n = 0; n < shape.columns; ++n) {
    float even = 0, odd = 0;
    for (int k = 0; k < shape.words; ++k) {
      const uint32_t left = Word(a, row, k), right = Word(b, k, n);
      even = FusedWithoutSubnormals(LowNumber(left), LowNumber(right), even);
      odd = FusedWithoutSubnormals(HighNumber(left), HighNumber(right), odd);
    }
    const float both = FusedWithoutSubnormals(1, even, odd);
    const float sum = FusedWithoutSubnormals(1, both, std::bit_cast<float>(Word(c, row, n)));
    std::memcpy(c.bytes[row] + 4 * n, &sum, sizeof(sum));
  }
}

// A and B: the types of the factors' bytes.
template <class A, class B>
void MultiplyBytes(const Tile& a, const Tile& b, const ProductShape& shape, Tile& c) {
  for (int m = 0; m < shape.rows; ++m) {
    uint32_t sums[kAmxTileSide];
    std::memcpy(sums, c.bytes[m], sizeof(sums));
    for (int k = 0; k < shape.words; ++k) {
      for (int n = 0; n < kAmxTileSide; ++n) {
        int32_t products = 0;
        for (int i = 0; i < 4; ++i)
          products += static_cast<A>(a.bytes[m][4 * k + i]) * static_cast<B>(b.bytes[k][4 * n + i]);
        sums[n] += static_cast<uint32_t>(products);
      }
    }
    std::memcpy(c.bytes[m], sums, 4 * static_cast<size_t>(shape.columns));
  }
}

#if defined(__x86_64__)
HWY_PUSH_ATTRIBUTES("avx,avx2,fma")
// The same by the instructions that the tiles' are defined by, a hundred times as fast: FMA's with numbers below 2⁻¹²⁶
// taken for 0 are the tiles' arithmetic. Not inlined, so that nothing moves across the change of MXCSR.
HWY_NOINLINE void MultiplyInVectors(const Tile& a, const Tile& b, const ProductShape& shape, Tile& c) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000));
  const auto low = [](__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); };
  const auto high = [upper](__m256i pairs) { return _mm256_castsi256_ps(_mm256_and_si256(pairs, upper)); };
  for (int m = 0; m < shape.rows; ++m) {
    __m256 even[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, odd[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int k = 0; k < shape.words; ++k) {
      const __m256i left = _mm256_set1_epi32(static_cast<int>(Word(a, m, k)));
      for (int half = 0; half < 2; ++half) {
        const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b.bytes[k] + 32 * half));
        even[half] = _mm256_fmadd_ps(low(left), low(right), even[half]);
        odd[half] = _mm256_fmadd_ps(high(left), high(right), odd[half]);
      }
    }
    alignas(32) float sums[kAmxTileSide];
    for (int half = 0; half < 2; ++half) {
      const __m256 before = _mm256_loadu_ps(reinterpret_cast<const float*>(c.bytes[m] + 32 * half));
      _mm256_store_ps(sums + 8 * half, _mm256_add_ps(before, _mm256_add_ps(even[half], odd[half])));
    }
    std::memcpy(c.bytes[m], sums, 4 * shape.columns);
  }
}
HWY_POP_ATTRIBUTES
#endif

// Nearest even in this scope, whatever the thread's mode is.
class RoundsToNearest {
 public:
  RoundsToNearest() { std::fesetround(FE_TONEAREST); }
  ~RoundsToNearest() { std::fesetround(before_); }
  RoundsToNearest(const RoundsToNearest&) = delete;
  RoundsToNearest& operator=(const RoundsToNearest&) = delete;

 private:
  const int before_ = std::fegetround();
};

}  // namespace

// The product of two floats is exact in double.
float FusedWithoutSubnormals(float a, float b, float sum) {
  return RoundedToFloat(SumRoundedToOdd(WithoutSubnormals(a) * WithoutSubnormals(b), WithoutSubnormals(sum)));
}

void AmxModel::Configure(const AmxTileShapes& shapes) {
  if (shapes.palette != 1) Illegal("a palette that does not exist");
  for (int t = 0; t < kAmxTileCount; ++t) {
    if (shapes.rows[t] > kAmxTileSide || shapes.row_bytes[t] > kAmxTileRowBytes ||
        (shapes.rows[t] == 0) != (shapes.row_bytes[t] == 0))
      Illegal("a shape that no tile has");
  }
  ThreadTiles& own = Own();
  own.configured = true;
  own.shapes = shapes;
  std::memset(own.tiles, 0, sizeof(own.tiles));
}

void AmxModel::Release() { Own().configured = false; }

void AmxModel::Zero(int tile) { std::memset(&Configured(tile), 0, sizeof(Tile)); }

void AmxModel::Load(int tile, const void* from, ptrdiff_t stride) {
  Tile& to = Configured(tile);
  std::memset(&to, 0, sizeof(to));
  for (int row = 0; row < Own().shapes.rows[tile]; ++row)
    std::memcpy(to.bytes[row], static_cast<const uint8_t*>(from) + row * stride, Own().shapes.row_bytes[tile]);
}

void AmxModel::Store(int tile, void* to, ptrdiff_t stride) {
  const Tile& from = Configured(tile);
  for (int row = 0; row < Own().shapes.rows[tile]; ++row)
    std::memcpy(static_cast<uint8_t*>(to) + row * stride, from.bytes[row], Own().shapes.row_bytes[tile]);
}

void AmxModel::MultiplyBFloat16(int c, int a, int b) {
  Tile &to = Configured(c), &left = Configured(a), &right = Configured(b);
  const ProductShape shape = ShapeOf(c, a, b);
#if defined(__x86_64__)
  static const bool fused = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (fused) {
    constexpr unsigned kNoTraps = 0x1F80, kNoSubnormals = 0x8040;
    const unsigned before = _mm_getcsr();
    _mm_setcsr(kNoTraps | kNoSubnormals);
    MultiplyInVectors(left, right, shape, to);
    _mm_setcsr(before);
    return;
  }
#endif
  const RoundsToNearest scope;
  for (int m = 0; m < shape.rows; ++m) MultiplyRow(left, right, m, shape, to);
}

void AmxModel::MultiplyInt8(int c, int a, int b, Signs signs) {
  Tile &to = Configured(c), &left = Configured(a), &right = Configured(b);
  const ProductShape shape = ShapeOf(c, a, b);
  switch (signs) {
    case Signs::kBoth:
      return MultiplyBytes<int8_t, int8_t>(left, right, shape, to);
    case Signs::kFirst:
      return MultiplyBytes<int8_t, uint8_t>(left, right, shape, to);
    case Signs::kSecond:
      return MultiplyBytes<uint8_t, int8_t>(left, right, shape, to);
    case Signs::kNone:
      return MultiplyBytes<uint8_t, uint8_t>(left, right, shape, to);
  }
}

}  // namespace lshformer
