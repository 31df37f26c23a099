// Whether this build is a sanitizer's, which takes ten times as long: what looks at numbers alone may do less there.
#pragma once

namespace lshformer::testing {

#ifdef __has_feature  // Clang says it in its own way
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace lshformer::testing
