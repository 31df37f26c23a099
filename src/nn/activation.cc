#include "nn/activation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace lshformer {
namespace {

struct ActivationName {
  const char* name;
  Activation activation;
};
// The first name of each is the one written.
constexpr std::array<ActivationName, 11> kActivations{{{"gelu", Activation::kGelu},
                                                       {"gelu_python", Activation::kGelu},
                                                       {"gelu_new", Activation::kGeluNew},
                                                       {"gelu_pytorch_tanh", Activation::kGeluNew},
                                                       {"gelu_python_tanh", Activation::kGeluNew},
                                                       {"gelu_fast", Activation::kGeluNew},
                                                       {"gelu_accurate", Activation::kGeluNew},
                                                       {"relu", Activation::kRelu},
                                                       {"tanh", Activation::kTanh},
                                                       {"silu", Activation::kSilu},
                                                       {"swish", Activation::kSilu}}};

}  // namespace

Activation ParseActivation(const std::string& name, std::string_view where) {
  std::vector<std::string> names;
  for (const ActivationName& known : kActivations) {
    if (name == known.name) return known.activation;
    names.push_back(known.name);
  }
  Fail("{}: unknown activation \"{}\", expected {}{}", where, Shown(name), fmt::join(names, ", "),
       Suggestion(name, names));
}

const char* Name(Activation activation) {
  const auto is_it = [&](const ActivationName& known) { return known.activation == activation; };
  return std::find_if(kActivations.begin(), kActivations.end(), is_it)->name;
}

UnaryFunction Function(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return UnaryFunction::kGelu;
    case Activation::kGeluNew:
      return UnaryFunction::kGeluNew;
    case Activation::kRelu:
      return UnaryFunction::kRelu;
    case Activation::kTanh:
      return UnaryFunction::kTanh;
    case Activation::kSilu:
      return UnaryFunction::kSilu;
  }
  Fail("unknown activation {}", static_cast<int>(activation));
}

}  // namespace lshformer
