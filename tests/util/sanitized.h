// Whether this build is a sanitizer's, which takes ten times as long: what looks at numbers alone may do less there.
#pragma once
#include <cstddef>
#include <vector>

namespace lshformer::testing {

#ifdef __has_feature  // Clang says it in its own way
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// All, of which a sanitizer's build takes every so many: cases that go through the same code.
template <class T>
std::vector<T> FewerIfSanitized(std::vector<T> all, size_t step) {
  if (!kSanitized) return all;
  std::vector<T> some;
  for (size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

}  // namespace lshformer::testing
