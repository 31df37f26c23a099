#include "errors.h"

#include <dlfcn.h>

#include <stdexcept>

namespace lshformer::extension {

// The C++ library is linked in, so that old systems can load this one, and torch uses another copy. An exception that
// is thrown by one and caught by the other is counted up here and down there, which leaves that thread's
// std::uncaught_exceptions() at −1 for good. So torch's copy throws it.
void Raise(const std::string& text) {
  using Throw = void (*)(const char*);
  static const auto of_torch = [] {
    void* library = dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY);
    void* symbol = library == nullptr ? nullptr : dlsym(library, "_ZSt21__throw_runtime_errorPKc");
    return reinterpret_cast<Throw>(symbol);
  }();
  if (of_torch != nullptr) of_torch(text.c_str());
  throw std::runtime_error(text);
}

}  // namespace lshformer::extension
