// Kernels of torch's dispatcher whose errors are those of the program.
#pragma once
#include <torch/csrc/stable/library.h>

#include <exception>
#include <string>
#include <type_traits>

namespace lshformer::extension {

// Throws std::runtime_error(text), which torch makes a RuntimeError of Python.
[[noreturn]] void Raise(const std::string& text);

// What STABLE_TORCH_LIBRARY_IMPL takes: `Function`, boxed, whatever it throws raised with Raise.
template <auto Function>
void Boxed(StableIValue* stack, uint64_t inputs, uint64_t outputs) {
  std::string text;
  try {
    torch::stable::detail::boxer<std::remove_pointer_t<decltype(Function)>, Function>::boxed_fn(stack, inputs, outputs);
    return;
  } catch (const std::exception& error) {
    text = error.what();
  }
  Raise(text);
}

}  // namespace lshformer::extension
