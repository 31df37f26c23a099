// Numbers in texts.
#pragma once
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace lshformer {

// The whole of `text` as a number; nothing where it is none, or too large. A number too small for Number is 0 or the
// nearest there is, as JSON's are. "inf" and "nan" are numbers.
template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    // Out of range is too large or too small.
    if (code == std::errc::result_out_of_range) {
      const double rounded = std::strtod(std::string(text).c_str(), nullptr);
      if (std::abs(rounded) < 1) return static_cast<Number>(rounded);
    }
  }
  if (code != std::errc{}) return std::nullopt;
  return value;
}

}  // namespace lshformer
