#include "cli/precision_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/flags.h"
#include "kernels/isa.h"

namespace lshformer::cli {

Precision PrecisionFlags::Chosen() const {
  if (bf16 && int8) FailUsage("--bf16 and --int8: expected one of them, got both");
  return bf16 ? Precision::kBFloat16 : int8 ? Precision::kInt8 : Precision::kFloat32;
}

MatmulPrecision PrecisionFlags::ChosenMatmulPrecision() const {
  if (float32_matmul_precision && (bf16 || int8))
    FailUsage("--float32_matmul_precision: is for float32, not beside {}", bf16 ? "--bf16" : "--int8");
  return ParseMatmulPrecisionFlag(float32_matmul_precision);
}

void AddMatmulPrecisionFlag(CLI::App& app, std::optional<std::string>& value, const char* group) {
  app.add_option("--float32_matmul_precision", value,
                 "what float32 products are made of on processors with AMX: highest float32's multiply-add, "
                 "high three products of bfloat16, medium one")
      ->check(OneOf({"highest", "high", "medium"}))
      ->default_str("highest")
      ->group(group);
}

MatmulPrecision ParseMatmulPrecisionFlag(const std::optional<std::string>& value) {
  return value ? ParseMatmulPrecision(*value) : MatmulPrecision::kHighest;
}

void AddPrecisionFlags(CLI::App& app, PrecisionFlags& flags, bool inference) {
  const char* group = "Speed (float32 is the default; docs/numerics.md tells what these cost)";
  app.add_flag("--bf16", flags.bf16,
               inference
                   ? "linear layers and attention in bfloat16, on CPUs with AMX or AVX512_BF16"
                   : "linear layers and attention in bfloat16, forward and backward; weights and all else stay float32")
      ->group(group);
  AddMatmulPrecisionFlag(app, flags.float32_matmul_precision, group);
  if (!inference) return;
  app.add_flag("--int8", flags.int8,
               "the encoder's linear layers in 8-bit integers, on CPUs with AVX512_VNNI or AVX_VNNI; attention in "
               "bfloat16 where that is faster")
      ->group(group);
}

Operands ParseOperandsFlag(const std::string& value) {
  if (value == "float32") return Operands::kFloat32;
  if (value != "bfloat16") FailUsage("--dtype: expected float32 or bfloat16, got \"{}\"", Shown(value));
  if (!Supports(Operands::kBFloat16))
    FailUsage("--dtype bfloat16: needs amx, or avx512 on a CPU with AVX512_BF16, the instruction set in force is {}",
              ActiveIsa());
  return Operands::kBFloat16;
}

Precision ParsePrecisionFlag(const std::string& value) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (value != Name(precision)) continue;
    RequirePrecision(precision, fmt::format("--dtype {}", value).c_str());
    return precision;
  }
  FailUsage("--dtype: expected float32, bfloat16 or int8, got \"{}\"", Shown(value));
}

}  // namespace lshformer::cli
