#include "text/albert_text.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

const UNormalizer2* Nfkd() {
  static const UNormalizer2* const nfkd = [] {
    UErrorCode status = U_ZERO_ERROR;
    const UNormalizer2* instance = unorm2_getNFKDInstance(&status);
    if (U_FAILURE(status)) Fail("ICU has no normalisation data: {}", u_errorName(status));
    return instance;
  }();
  return nfkd;
}

// Calls `action` with the characters of the full compatibility decomposition.
template <class Action>
void Decomposed(char32_t c, const Action& action) {
  UChar text[64];  // the longest has 18 characters
  UErrorCode status = U_ZERO_ERROR;
  const int length = unorm2_getDecomposition(Nfkd(), static_cast<UChar32>(c), text, std::size(text), &status);
  if (length < 0 || U_FAILURE(status)) return action(c);
  for (int at = 0; at < length;) {
    UChar32 part;
    U16_NEXT(text, at, length, part);
    action(static_cast<char32_t>(part));
  }
}

// Calls `action` with the character in lower case.
template <class Action>
void Lowered(char32_t c, bool lowercase, const Action& action) {
  if (!lowercase) return action(c);
  char32_t lower[kMaxMapping];
  const int count = Lowercase(c, lower);
  for (int i = 0; i < count; ++i) action(lower[i]);
}

}  // namespace

bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

AlbertText::AlbertText(std::string_view original, int32_t first, const AlbertTextOptions& options) : first_(first) {
  text_.reserve(original.size());
  Range space{-1, -1};  // white space that is not yet known to be followed by something
  const char* next = original.data();
  const char* const end = next + original.size();
  for (int32_t index = first; next < end; ++index) {
    const char32_t c = NextCodePoint(next);
    if (options.remove_space && IsPythonSpace(c)) {
      space = {space.first < 0 ? index : space.first, index + 1};
      continue;
    }
    if (space.first >= 0 && !text_.empty()) Put(' ', space);
    space = {-1, -1};
    if ((c == '`' || c == '\'') && next < end && static_cast<char32_t>(*next) == c) {
      ++next;
      Put('"', {index, index + 2});
      ++index;
    } else {
      Add(c, options, {index, index + 1});
    }
  }
}

void AlbertText::Add(char32_t c, const AlbertTextOptions& options, Range origin) {
  if (c < 0x80) return PutByte(static_cast<char>(options.lowercase && c >= 'A' && c <= 'Z' ? c + 32 : c), origin);
  Lowered(c, options.lowercase, [&](char32_t lower) {
    if (options.keep_accents) return Put(lower, origin);
    Decomposed(lower, [&](char32_t part) {
      if (u_getCombiningClass(static_cast<UChar32>(part)) != 0) return;
      Lowered(part, options.lowercase, [&](char32_t character) { Put(character, origin); });
    });
  });
}

void AlbertText::Put(char32_t c, Range origin) {
  if (c < 0x80) return PutByte(static_cast<char>(c), origin);
  std::string bytes;
  AppendUtf8(c, bytes);
  for (const char byte : bytes) PutByte(byte, origin);
}

void AlbertText::PutByte(char byte, Range origin) {
  if (text_.empty()) first_ = origin.first;
  const auto here = static_cast<int32_t>(text_.size()) + first_;
  if (origins_.empty() && origin != Range{here, here + 1}) {
    origins_.reserve(text_.capacity());
    for (int32_t i = first_; i < here; ++i) origins_.emplace_back(i, i + 1);
    origins_.push_back(origin);
  } else if (!origins_.empty()) {
    origins_.push_back(origin);
  }
  text_ += byte;
}

AlbertText::Range AlbertText::Origin(size_t begin, size_t end) const {
  const auto at = [&](size_t byte) {
    const int32_t here = first_ + static_cast<int32_t>(byte);
    return origins_.empty() ? Range{here, here + 1} : origins_[byte];
  };
  if (begin < end) return {at(begin).first, at(end - 1).second};
  if (text_.empty()) return {first_, first_};
  const int32_t place = begin < text_.size() ? at(begin).first : at(text_.size() - 1).second;
  return {place, place};
}

}  // namespace lshformer
