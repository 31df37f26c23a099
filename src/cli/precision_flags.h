// Flags that choose in what numbers linear layers, and attention, multiply.
#pragma once
#include <string>

#include "kernels/attention.h"
#include "ops/precision.h"

namespace CLI {
class App;
}

namespace lshformer::cli {

// --bf16 and --int8.
struct PrecisionFlags {
  bool bf16 = false, int8 = false;
  Precision Chosen() const;  // UsageError for both at once
};

// Declares --bf16, and where a model is only asked --int8.
void AddPrecisionFlags(CLI::App& app, PrecisionFlags& flags, bool inference);

// The value of --dtype: a name of Precision that this CPU has instructions for. UsageError.
Precision ParsePrecisionFlag(const std::string& value);
// The same for attention alone: float32 or bfloat16.
Operands ParseOperandsFlag(const std::string& value);

}  // namespace lshformer::cli
