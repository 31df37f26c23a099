#include "kernels/precision.h"

namespace lshformer {

const char* Name(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kBFloat16:
      return "bfloat16";
    case Precision::kInt8:
      return "int8";
  }
  return "float32";
}

}  // namespace lshformer
