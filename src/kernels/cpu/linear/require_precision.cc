#include <algorithm>
#include <array>
#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "base/error.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "kernels/packed_linear.h"
#include "kernels/precision.h"

namespace lshformer {
namespace {

// A layer of BERT base, as many rows as a short batch has.
constexpr int64_t kRows = 256, kSize = 768;

double Seconds(const PackedLinear& linear) {
  const std::vector<float> x(kRows * kSize, 0.5f);
  std::vector<float> y(x.size());
  double best = 1e9;
  for (int run = 0; run < 4; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    linear.Run(kRows, x.data(), y.data(), {});
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// Time of a product against float32; 0 where oneDNN has no code for it on this CPU.
double TimesSlower(Precision precision) {
  const std::vector<float> weight(kSize * kSize, 0.25f), bias(kSize);
  const PackedLinear plain(Precision::kFloat32, weight.data(), bias.data(), kSize, kSize);
  try {
    const PackedLinear emulated(precision, weight.data(), bias.data(), kSize, kSize);
    return Seconds(emulated) / Seconds(plain);
  } catch (const dnnl::error&) {
    return 0;
  }
}

// Instructions before VNNI add pairs of products in 16 bits, where the largest do not fit.
bool IntegerProductsAreExact() {
  constexpr int64_t kInner = 64, kColumns = 16;
  std::array<int8_t, kInner * kColumns> b;
  std::array<uint8_t, kInner> a;
  std::array<int32_t, kColumns> c{};
  b.fill(127);
  a.fill(255);
  PackedMatrix(MatrixOf<int8_t>{b.data(), 1, kInner}, kInner, kColumns)
      .Multiply(1, a.data(), kInner, c.data(), kColumns);
  return std::all_of(c.begin(), c.end(), [](int32_t sum) { return sum == 255 * 127 * kInner; });
}

}  // namespace

void RequirePrecision(Precision precision, const char* flag) {
  if (precision == Precision::kInt8) {
    if (!SupportsProducts(precision) || !IntegerProductsAreExact())
      FailUsage(
          "{}: this CPU has no instructions for sums of 8-bit products (AVX512_VNNI or AVX_VNNI); those it has "
          "overflow "
          "in 16 bits",
          flag);
  } else if (!SupportsProducts(precision)) {
    const double slower = TimesSlower(precision);
    const std::string cost = slower == 0
                                 ? "and oneDNN cannot emulate them here"
                                 : fmt::format("emulated, they would take {:.1f} times as long as float32", slower);
    FailUsage("{}: this CPU has no instructions for bfloat16 products (AVX512_BF16 or AMX); {}", flag, cost);
  } else if (precision == Precision::kBFloat16 && !Supports(Operands::kBFloat16)) {
    FailUsage(
        "{}: attention in bfloat16 needs amx, or avx512 on a CPU with AVX512_BF16, the instruction set in force is {}; "
        "emulated, "
        "it would take float32's time and that of rounding on top",
        flag, ActiveIsa());
  }
}

}  // namespace lshformer
