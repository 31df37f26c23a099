#include "text/unicode.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>
#include <unicode/utf16.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

// Whether `c` was assigned in Unicode `major`.0.
bool Known(char32_t c, int major) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && (age[0] < major || (age[0] == major && age[1] == 0));
}

// Characters whose category has changed since 8.0 in a way that shows here.
int Category(char32_t c) {
  switch (c) {
    case 0x166D:   // CANADIAN SYLLABICS CHI SIGN, now a symbol
    case 0x111C9:  // SHARADA SANDHI MARK, now a mark
      return U_OTHER_PUNCTUATION;
    case 0x1734:  // HANUNOO SIGN PAMUDPOD, now a spacing mark
      return U_NON_SPACING_MARK;
    case 0x1885:  // MONGOLIAN LETTER ALI GALI BALUDA and THREE BALUDA, now marks
    case 0x1886:
      return U_OTHER_LETTER;
    case 0xA9BD:  // JAVANESE CONSONANT SIGN KERET, now a non-spacing mark
      return U_COMBINING_SPACING_MARK;
    default:
      return Known(c, 8) ? u_charType(static_cast<UChar32>(c)) : static_cast<int>(U_UNASSIGNED);
  }
}

// HF's ranges, which leave out U+2B820 … U+2B91F of Extension E.
bool IsIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool IsAsciiPunctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool IsDropped(char32_t c, int category) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return c == 0xFFFD || category == U_CONTROL_CHAR || category == U_FORMAT_CHAR || category == U_PRIVATE_USE_CHAR;
}

// Word characters that came with Unicode 15.1 and 16, first and last of each range.
constexpr char32_t kNewWordCharacters[][2] = {
    {0x897, 0x897},     {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D40, 0x10D65}, {0x10D69, 0x10D6D}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x10EFC, 0x10EFC},
    {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113C0},
    {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D3}, {0x113E1, 0x113E2},
    {0x116D0, 0x116E3}, {0x11BC0, 0x11BE0}, {0x11BF0, 0x11BF9}, {0x11F5A, 0x11F5A}, {0x13460, 0x143FA},
    {0x16100, 0x16139}, {0x16D40, 0x16D6C}, {0x16D70, 0x16D79}, {0x18CFF, 0x18CFF}, {0x1CCF0, 0x1CCF9},
    {0x1E5D0, 0x1E5FA}, {0x2EBF0, 0x2EE5D}};

template <size_t kRanges>
bool IsInRanges(char32_t c, const char32_t (&ranges)[kRanges][2]) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [c](const char32_t(&range)[2]) { return c >= range[0] && c <= range[1]; });
}

uint8_t ComputeFlags(char32_t c) {
  const auto character = static_cast<UChar32>(c);
  const int category = Category(c);
  char32_t mapping[kMaxMapping];
  unsigned flags = 0;
  if (IsDropped(c, category)) {
    flags |= kDropped;
  } else if (u_hasBinaryProperty(character, UCHAR_WHITE_SPACE)) {
    flags |= kSpace;
  }
  if (IsAsciiPunctuation(c) || (U_MASK(category) & U_GC_P_MASK) != 0) flags |= kPunctuation;
  if (IsIdeograph(c)) flags |= kIdeograph;
  if (category == U_NON_SPACING_MARK) flags |= kMark;
  if (CombiningClass(c) != 0 || Decompose(c, mapping) != 1 || mapping[0] != c || Lowercase(c, mapping) != 1 ||
      mapping[0] != c) {
    flags |= kMapped;
  }
  if (u_hasBinaryProperty(character, UCHAR_ALPHABETIC) || u_hasBinaryProperty(character, UCHAR_JOIN_CONTROL) ||
      (U_GET_GC_MASK(character) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
      IsInRanges(c, kNewWordCharacters)) {
    flags |= kWordCharacter;
  }
  return static_cast<uint8_t>(flags);
}

const UNormalizer2* Checked(const UNormalizer2* instance, UErrorCode status) {
  if (U_FAILURE(status)) Fail("ICU has no normalisation data: {}", u_errorName(status));
  return instance;
}

const UNormalizer2* Nfd() {
  UErrorCode status = U_ZERO_ERROR;
  static const UNormalizer2* const nfd = Checked(unorm2_getNFDInstance(&status), status);
  return nfd;
}

const UNormalizer2* Nfc() {
  UErrorCode status = U_ZERO_ERROR;
  static const UNormalizer2* const nfc = Checked(unorm2_getNFCInstance(&status), status);
  return nfc;
}

const UNormalizer2* CompatibleNormalizer() {
  UErrorCode status = U_ZERO_ERROR;
  static const UNormalizer2* const nfkd = Checked(unorm2_getNFKDInstance(&status), status);
  return nfkd;
}

// What `normalizer` makes of a character that it knew in Unicode 9.0, at most `most` characters.
int DecomposeBy(const UNormalizer2* normalizer, char32_t c, int most, char32_t* out) {
  UChar text[2 * kMaxCompatibleMapping];
  UErrorCode status = U_ZERO_ERROR;
  const int length = Known(c, 9) ? unorm2_getDecomposition(normalizer, static_cast<UChar32>(c), text,
                                                           2 * kMaxCompatibleMapping, &status)
                                 : -1;
  if (length < 0 || U_FAILURE(status)) {
    out[0] = c;
    return 1;
  }
  int count = 0;
  for (int at = 0; at < length && count < most;) {
    UChar32 part;
    U16_NEXT(text, at, length, part);
    out[count++] = static_cast<char32_t>(part);
  }
  return count;
}

// Lower case that came with Unicode 16 and 17: c in [first, last] becomes c + shift.
struct LowercaseRange {
  char32_t first, last;
  int shift;
};
constexpr LowercaseRange kNewLowercase[] = {
    {0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B},
};

// Letters and numbers that came with Unicode 15.1 and 16, first and last of each range.
constexpr char32_t kNewLetters[][2] = {{0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
                                       {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
                                       {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7},
                                       {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA},
                                       {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
                                       {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr char32_t kNewNumbers[][2] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139},
                                       {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}};

LetterClass ComputeLetterClass(char32_t c) {
  if (u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE)) return LetterClass::kSpace;
  const uint32_t category = Known(c, 16) ? U_GET_GC_MASK(static_cast<UChar32>(c)) : 0;
  if ((category & U_GC_L_MASK) != 0 || IsInRanges(c, kNewLetters)) return LetterClass::kLetter;
  if ((category & U_GC_N_MASK) != 0 || IsInRanges(c, kNewNumbers)) return LetterClass::kNumber;
  return LetterClass::kOther;
}

bool ComputeIsComposed(char32_t c) {
  return CombiningClass(c) == 0 && u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NFC_QUICK_CHECK) == UNORM_YES;
}

// What `compute` gives. That of the basic plane is computed once (2 ms); what lies beyond is rare enough to ask ICU
// each time.
template <auto compute>
auto Tabled(char32_t c) {
  static const auto basic_plane = [] {
    std::array<decltype(compute(0)), 0x10000> values{};
    for (char32_t i = 0; i < values.size(); ++i) values[i] = compute(i);
    return values;
  }();
  return c < basic_plane.size() ? basic_plane[c] : compute(c);
}

}  // namespace

uint8_t CharFlags(char32_t c) { return Tabled<ComputeFlags>(c); }

LetterClass LetterClassOf(char32_t c) { return Tabled<ComputeLetterClass>(c); }

bool IsComposed(char32_t c) { return c < 0x300 || Tabled<ComputeIsComposed>(c); }

char32_t Compose(char32_t first, char32_t second) {
  const UChar32 both = unorm2_composePair(Nfc(), static_cast<UChar32>(first), static_cast<UChar32>(second));
  return both > 0 && Known(static_cast<char32_t>(both), 9) ? static_cast<char32_t>(both) : 0;
}

bool IsAnySpace(char32_t c) { return (c >= 0x09 && c <= 0x0D) || c == 0x85 || (CharFlags(c) & kSpace) != 0; }

size_t SkipSpaceBack(std::string_view text, size_t floor, size_t at) {
  while (at > floor) {
    const size_t previous = PreviousCodePoint(text, at);
    const char* next = text.data() + previous;
    if (!IsAnySpace(NextCodePoint(next))) break;
    at = previous;
  }
  return at;
}

int CombiningClass(char32_t c) { return Known(c, 9) ? u_getCombiningClass(static_cast<UChar32>(c)) : 0; }

int Decompose(char32_t c, char32_t* out) { return DecomposeBy(Nfd(), c, kMaxMapping, out); }

int DecomposeCompatibly(char32_t c, char32_t* out) {
  return DecomposeBy(CompatibleNormalizer(), c, kMaxCompatibleMapping, out);
}

bool IsCombiningMark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // VEDIC SIGNS ARDHAVISARGA, letters since 12.0
  if (c == 0x111C9) return false;               // SHARADA SANDHI MARK, a mark since 11.0
  return Known(c, 9) && (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0;
}

int Lowercase(char32_t c, char32_t* out) {
  for (const LowercaseRange& range : kNewLowercase) {
    if (c >= range.first && c <= range.last) {
      out[0] = static_cast<char32_t>(static_cast<int>(c) + range.shift);
      return 1;
    }
  }
  // The only character whose full lower case is longer than one.
  if (c == 0x130) {
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
  return 1;
}

}  // namespace lshformer
