// Activation functions under the names of config.json.
#pragma once
#include <string>
#include <string_view>

#include "kernels/functions.h"

namespace lshformer {

enum class Activation {
  kGelu,
  kGeluNew,
  kRelu,
  kTanh,
  kSilu
};  // "gelu" (erf), "gelu_new"/"gelu_pytorch_tanh", "relu", "tanh", "silu"/"swish"
Activation ParseActivation(const std::string& name, std::string_view where);
const char* Name(Activation activation);
UnaryFunction Function(Activation activation);

}  // namespace lshformer
