// AMX tiles: sums of products in blocks of up to 16 × 16, by AMX's instructions or by a software model of them.
//
// A thread has eight tiles, each of up to 16 rows of up to 64 bytes. With C of M rows and N columns of four bytes,
//
//   bfloat16   C[m][n] += Σ_k A[m][2k] B[k][2n] + A[m][2k + 1] B[k][2n + 1]     C in float32
//   8 bits     C[m][n] += Σ_k Σ_{i < 4} A[m][4k + i] B[k][4n + i]               C in 32 bits, which wrap around
//
// so A holds its numbers as they lie along a row, and B pairs (or fours) of them that lie down a column. In bfloat16
// the even and the odd members of the pairs are summed apart from +0, fused, over k in order; then even + odd; then C +
// that. Every step rounds to nearest even and takes numbers below 2⁻¹²⁶ for 0, going in and coming out (a result is
// so small if it is after rounding to 24 bits whatever its exponent), whatever the thread's MXCSR says.
//
// A class of tiles (AmxInstructions, AmxModel) has static functions; the numbers of tiles are template arguments, since
// they are part of the instructions. Memory is anywhere, strides are in bytes. Source: Intel's Software Developer's
// Manual, volume 1, chapter 18, and volume 2, TDPBF16PS, TDPBSSD.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace lshformer {

inline constexpr int kAmxTileCount = 8;
inline constexpr int kAmxTileSide = 16;        // rows of a tile, and sums in a row
inline constexpr int kAmxTileRowBytes = 64;    // 16 sums
inline constexpr int kAmxTileRowNumbers = 32;  // in bfloat16

// How many rows of how many bytes each tile has: what the instruction that configures reads.
struct alignas(64) AmxTileShapes {
  uint8_t palette = 1, start_row = 0;
  uint8_t zeros[14] = {};
  uint16_t row_bytes[16] = {};  // of the first kAmxTileCount
  uint8_t rows[16] = {};
};
static_assert(sizeof(AmxTileShapes) == 64);
AmxTileShapes WholeAmxTiles();  // all eight of the largest shape

// What 8-bit factors are.
enum class Signs { kBoth, kFirst, kSecond, kNone };

// Which tiles products in bfloat16 go through at present.
enum class AmxTiles { kNone, kInstructions, kModel };
AmxTiles ActiveAmxTiles();
// Tests alone: the model, on any instruction set. Goes before the instructions.
void UseAmxModel(bool on);

// Whether this process may use the instructions. The kernel is asked once, by the first to call this: what it grants
// holds for all threads, for processes forked later, and until the end. From then on it refuses alternate signal
// stacks that are too small for the tiles (11,952 bytes; sigaltstack: ENOMEM), and it grants nothing to a process of
// which some thread has one (ENOSPC).
struct AmxAccess {
  bool granted = false;
  std::string refusal;  // one line, for a report
};
const AmxAccess& AskForAmx();
// What follows from the CPU's features (CPUID leaf 7, EDX) and from the kernel's answer (0 or errno).
AmxAccess AccessFrom(uint32_t features, bool bfloat16_vectors, int error);

#if defined(__x86_64__)
// The instructions. Of the compiler's own functions those of GCC 12 state too little of the memory that they read, and
// lose stores before them; so these say that they may read and write any. No compiler keeps numbers in tiles by itself.
struct AmxInstructions {
  static void Configure(const AmxTileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory"); }
  static void Release() { asm volatile("tilerelease" ::: "memory"); }
  template <int T>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  static void Load(const void* from, ptrdiff_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  static void Store(void* to, ptrdiff_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  static void MultiplyBFloat16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B, Signs kSigns>
  static void MultiplyInt8() {
    if constexpr (kSigns == Signs::kBoth) asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
    if constexpr (kSigns == Signs::kFirst)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
    if constexpr (kSigns == Signs::kSecond)
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
    if constexpr (kSigns == Signs::kNone) asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};
#endif

// The same in plain C++, where there are the instructions tested to be so bit for bit (a NaN may be another). Each
// thread has its tiles. std::logic_error where the instructions would be illegal: tiles that are not configured, shapes
// that do not fit.
struct AmxModel {
  static void Configure(const AmxTileShapes& shapes);
  static void Release();
  template <int T>
  static void Zero() {
    Zero(T);
  }
  template <int T>
  static void Load(const void* from, ptrdiff_t stride) {
    Load(T, from, stride);
  }
  template <int T>
  static void Store(void* to, ptrdiff_t stride) {
    Store(T, to, stride);
  }
  template <int C, int A, int B>
  static void MultiplyBFloat16() {
    MultiplyBFloat16(C, A, B);
  }
  template <int C, int A, int B, Signs kSigns>
  static void MultiplyInt8() {
    MultiplyInt8(C, A, B, kSigns);
  }

  static void Zero(int tile);
  static void Load(int tile, const void* from, ptrdiff_t stride);
  static void Store(int tile, void* to, ptrdiff_t stride);
  static void MultiplyBFloat16(int c, int a, int b);
  static void MultiplyInt8(int c, int a, int b, Signs signs);
};

// One step of the model's products: sum + a · b, fused. In vectors where the CPU has fused multiply-add, else so.
float FusedWithoutSubnormals(float a, float b, float sum);

// A thread's tiles from here to the end of a scope, all of the largest shape. No call into oneDNN or libtorch may come
// between: they leave a thread's tiles unconfigured.
template <class M>
class ConfiguredAmxTiles {
 public:
  ConfiguredAmxTiles() {
    static const AmxTileShapes shapes = WholeAmxTiles();
    M::Configure(shapes);
  }
  ~ConfiguredAmxTiles() { M::Release(); }
  ConfiguredAmxTiles(const ConfiguredAmxTiles&) = delete;
  ConfiguredAmxTiles& operator=(const ConfiguredAmxTiles&) = delete;
};

}  // namespace lshformer
