// Flags that choose in what numbers linear layers, and attention, multiply.
#pragma once
#include <optional>
#include <string>

#include "kernels/execution.h"
#include "kernels/matmul_precision.h"
#include "kernels/precision.h"

namespace CLI {
class App;
}

namespace lshformer::cli {

// --bf16 and --int8.
struct PrecisionFlags {
  bool bf16 = false, int8 = false;
  std::optional<std::string> float32_matmul_precision = {};
  Precision Chosen() const;  // UsageError for both at once
  // That of --float32_matmul_precision; UsageError beside one of the others.
  MatmulPrecision ChosenMatmulPrecision() const;
};

// Declares --bf16, where a model is only asked --int8, and --float32_matmul_precision.
void AddPrecisionFlags(CLI::App& app, PrecisionFlags& flags, bool inference);

// --float32_matmul_precision alone, and its value.
void AddMatmulPrecisionFlag(CLI::App& app, std::optional<std::string>& value, const char* group);
MatmulPrecision ParseMatmulPrecisionFlag(const std::optional<std::string>& value);

// The value of --dtype: a name of Precision that this CPU has instructions for. UsageError.
Precision ParsePrecisionFlag(const std::string& value);
// The same for attention alone: float32 or bfloat16.
Operands ParseOperandsFlag(const std::string& value);

}  // namespace lshformer::cli
