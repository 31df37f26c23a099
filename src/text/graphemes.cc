#include "text/graphemes.h"

#include <unicode/uchar.h>

namespace lshformer {
namespace {

int BreakClass(char32_t c) { return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK); }

bool IsPictographic(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_EXTENDED_PICTOGRAPHIC); }

bool IsControl(int type) { return type == U_GCB_CONTROL || type == U_GCB_CR || type == U_GCB_LF; }

// Syllables of Hangul: rules GB6 to GB8.
bool JoinsHangul(int before, int after) {
  switch (before) {
    case U_GCB_L:
      return after == U_GCB_L || after == U_GCB_V || after == U_GCB_LV || after == U_GCB_LVT;
    case U_GCB_LV:
    case U_GCB_V:
      return after == U_GCB_V || after == U_GCB_T;
    case U_GCB_LVT:
    case U_GCB_T:
      return after == U_GCB_T;
    default:
      return false;
  }
}

}  // namespace

size_t GraphemeEnd(NormalizedSpan text, size_t begin) {
  size_t at = begin + 1;
  // Most text: ASCII before ASCII; only CR and LF belong together.
  if (at < text.size() && text[begin].c < 0x80 && text[at].c < 0x80)
    return text[begin].c == '\r' && text[at].c == '\n' ? at + 1 : at;
  int before = BreakClass(text[begin].c), flags = before == U_GCB_REGIONAL_INDICATOR ? 1 : 0;
  bool pictograph = IsPictographic(text[begin].c), joined = false;  // with marks behind it; and a joiner behind those
  for (; at < text.size(); ++at) {
    const char32_t c = text[at].c;
    const int after = BreakClass(c);
    if (before == U_GCB_CR && after == U_GCB_LF) return at + 1;
    if (IsControl(before) || IsControl(after)) return at;
    const bool extends = after == U_GCB_EXTEND || after == U_GCB_ZWJ;
    const bool joins = extends || after == U_GCB_SPACING_MARK || before == U_GCB_PREPEND ||
                       JoinsHangul(before, after) || (joined && IsPictographic(c)) ||
                       (after == U_GCB_REGIONAL_INDICATOR && flags == 1);
    if (!joins) return at;
    joined = pictograph && after == U_GCB_ZWJ;
    pictograph = IsPictographic(c) || (pictograph && extends);
    flags = after == U_GCB_REGIONAL_INDICATOR ? flags + 1 : extends && flags > 0 ? 2 : 0;
    before = after;
  }
  return at;
}

}  // namespace lshformer
