// In what numbers linear layers and attention multiply (with kInt8 attention as OperandsOf says, ops/attention.h); all
// else is float32. The formulas: kernels/packed_linear.h.
#pragma once

namespace lshformer {

enum class Precision { kFloat32, kBFloat16, kInt8 };

const char* Name(Precision precision);  // "float32", "bfloat16", "int8": the values of --dtype

// UsageError that names `flag` where this CPU has no instructions for the products: emulated they would be slower than
// float32, and how much is measured for the message, some milliseconds long. Nothing is ever emulated silently. Also
// where the instruction set in force (ForceIsa) is not the one that has attention's.
void RequirePrecision(Precision precision, const char* flag);

}  // namespace lshformer
