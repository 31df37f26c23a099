// What a torch::autograd::Function keeps for its backward beside tensors.
#pragma once
#include <utility>

#include "ops/torch.h"

namespace lshformer {

template <class T>
struct Kept : torch::CustomClassHolder {
  explicit Kept(T kept) : value(std::move(kept)) {}
  T value;
};

// One value a context.
template <class T>
void Keep(torch::autograd::AutogradContext* context, T value) {
  context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept<T>>(std::move(value)));
}
template <class T>
const T& GetKept(torch::autograd::AutogradContext* context) {
  return static_cast<const Kept<T>*>(context->saved_data["kept"].toCapsule().get())->value;
}

}  // namespace lshformer
