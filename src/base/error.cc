#include "base/error.h"

#include <algorithm>
#include <cstdint>

namespace lshformer {
namespace {

// Length of the well-formed UTF-8 character at the front of `text` (RFC 3629, table 3-7 of the Unicode standard), or 0.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(0), second = byte(1);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool shortest = lead != 0xE0 || second >= 0xA0, no_surrogate = lead != 0xED || second <= 0x9F;
    return follows(1) && follows(2) && shortest && no_surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool shortest = lead != 0xF0 || second >= 0x90, in_range = lead != 0xF4 || second <= 0x8F;
    return follows(1) && follows(2) && follows(3) && shortest && in_range ? 4 : 0;
  }
  return 0;
}

// C1 controls and the line separators U+2028, U+2029 would break the one line of an error on some terminals.
bool IsHarmless(std::string_view character) {
  if (character.size() == 1) return character[0] >= 0x20 && character[0] != 0x7F;
  if (character.size() == 2 && character[0] == '\xC2') return static_cast<uint8_t>(character[1]) >= 0xA0;
  return character != "\u2028" && character != "\u2029";
}

std::string WithMarksAs(std::string_view before, std::string text) {
  for (size_t mark = 0; (mark = text.find(kOptionMark, mark)) != text.npos; mark += before.size())
    text.replace(mark, kOptionMark.size(), before);
  return text;
}

}  // namespace

Error::Error(const std::string& text) : std::runtime_error(WithMarksAs("", text)), text_(text) {}

std::string Error::Spelled(std::string_view before) const { return WithMarksAs(before, text_); }

OptionError::OptionError(std::string_view name, std::string_view message)
    : UsageError(fmt::format("{}: {}", OptionName{name}, message)), name_(name) {}

std::string Shown(std::string_view bytes, size_t limit) {
  std::string shown;
  for (size_t i = 0; i < bytes.size();) {
    if (shown.size() >= limit) return shown.append("…");
    const size_t length = CharacterLength(bytes.substr(i));
    if (length > 0 && IsHarmless(bytes.substr(i, length))) {
      shown += bytes.substr(i, length);
    } else {
      for (size_t k = 0; k < std::max<size_t>(length, 1); ++k)
        shown += fmt::format("\\x{:02X}", static_cast<uint8_t>(bytes[i + k]));
    }
    i += std::max<size_t>(length, 1);
  }
  return shown;
}

}  // namespace lshformer
