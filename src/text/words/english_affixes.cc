#include "text/words/english_affixes.h"

#include <unicode/uchar.h>

#include <algorithm>

namespace lshformer {
namespace {

using Text = std::u32string_view;

constexpr Text kPunctuationMarks = U"…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪";
constexpr Text kQuotes = U"'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉\u2329\u232A⟦⟧";
constexpr Text kCurrency = U"$£€¥฿﷼";  // and U+20A0 … U+20BF
constexpr Text kUnits[] = {
    U"km",  U"km²",  U"km³", U"m",   U"m²",  U"m³",  U"dm",   U"dm²", U"dm³", U"cm", U"cm²", U"cm³", U"mm",   U"mm²",
    U"mm³", U"ha",   U"µm",  U"nm",  U"yd",  U"in",  U"ft",   U"kg",  U"g",   U"mg", U"µg",  U"t",   U"lb",   U"oz",
    U"m/s", U"km/h", U"kmh", U"mph", U"hPa", U"Pa",  U"mbar", U"mb",  U"MB",  U"kb", U"KB",  U"gb",  U"GB",   U"tb",
    U"TB",  U"T",    U"G",   U"M",   U"K",   U"%",   U"км",   U"км²", U"км³", U"м",  U"м²",  U"м³",  U"дм",   U"дм²",
    U"дм³", U"см",   U"см²", U"см³", U"мм",  U"мм²", U"мм³",  U"нм",  U"кг",  U"г",  U"мг",  U"м/с", U"км/ч", U"кПа",
    U"Па",  U"мбар", U"Кб",  U"КБ",  U"кб",  U"Мб",  U"МБ",   U"мб",  U"Гб",  U"ГБ", U"гб",  U"Тб",  U"ТБ"};

bool In(Text set, char32_t c) { return set.find(c) != Text::npos; }
bool IsDigit(char32_t c) { return c >= '0' && c <= '9'; }
bool IsAsciiLetter(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80; }
int Category(char32_t c) { return u_charType(static_cast<UChar32>(c)); }

// Letters of scripts without case, with the marks that stand on them; not the º and ª of Latin.
bool IsUncased(char32_t c) {
  if (c < 0x590) return false;
  const int category = Category(c);
  return category == U_OTHER_LETTER || category == U_NON_SPACING_MARK || category == U_COMBINING_SPACING_MARK;
}
bool IsLower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return Category(c) == U_LOWERCASE_LETTER || IsUncased(c);
}
bool IsUpper(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return Category(c) == U_UPPERCASE_LETTER || IsUncased(c);
}
bool IsLetter(char32_t c) {
  if (c < 0x80) return IsAsciiLetter(c);
  return Category(c) == U_TITLECASE_LETTER || IsLower(c) || IsUpper(c);
}
bool IsSymbol(char32_t c) { return c >= 0x80 && Category(c) == U_OTHER_SYMBOL; }
bool IsDash(char32_t c) { return c == U'—' || c == U'–'; }

// What stands apart at both ends of a word: punctuation, quotes, symbols.
bool StandsApart(char32_t c) {
  if (IsAsciiLetter(c) || IsDigit(c)) return false;
  return In(kPunctuationMarks, c) || In(kQuotes, c) || IsDash(c) || IsSymbol(c);
}

bool IsCurrency(char32_t c) { return (c >= 0x20A0 && c <= 0x20BF) || In(kCurrency, c); }
// US$, C$ and A$ too.
size_t CurrencyPrefix(Text text) {
  for (const Text dollars : {Text(U"US$"), Text(U"C$"), Text(U"A$")})
    if (text.starts_with(dollars)) return dollars.size();
  return IsCurrency(text[0]) ? 1 : 0;
}
size_t CurrencySuffix(Text text) {
  for (const Text dollars : {Text(U"US$"), Text(U"C$"), Text(U"A$")})
    if (text.ends_with(dollars)) return dollars.size();
  return IsCurrency(text.back()) ? 1 : 0;
}

// Two full stops or more at text[at].
size_t Dots(Text text, size_t at) {
  const size_t end = std::min(text.find_first_not_of(U'.', at), text.size());
  return end - at >= 2 ? end - at : 0;
}

// A full stop at the end that is no part of the word before it.
bool EndsSentence(Text text) {
  if (text.size() < 2 || text.back() != '.') return false;
  const char32_t before = text[text.size() - 2];
  if (IsDigit(before) || IsLower(before) || In(U"%²-+|", before) || In(kPunctuationMarks, before) ||
      In(kQuotes, before))
    return true;
  if (text.size() < 3) return false;
  const char32_t first = text[text.size() - 3];
  return (IsUpper(first) && IsUpper(before)) || (first == U'°' && In(U"FfCcKk", before));
}

// The longest unit or currency after a digit.
size_t MeasureSuffix(Text text) {
  const auto follows_digit = [&](size_t size) { return size < text.size() && IsDigit(text[text.size() - size - 1]); };
  size_t longest = text.back() == '+' && follows_digit(1) ? 1 : 0;
  if (const size_t currency = CurrencySuffix(text); currency > 0 && follows_digit(currency)) longest = currency;
  for (const Text unit : kUnits)
    if (unit.back() == text.back() && text.ends_with(unit) && follows_digit(unit.size()))
      longest = std::max(longest, unit.size());
  return longest;
}

bool IsHostCharacter(char32_t c) { return IsAsciiLetter(c) || IsDigit(c) || (c >= 0xA1 && c <= 0xFFFF); }

// host.tld[:port][/path] from `at` to the end of the text.
bool IsHost(Text text, size_t at) {
  constexpr size_t kLongestLabel = 64, kLongestDomain = 63;
  bool has_label = false;
  while (true) {
    size_t end = at;
    while (end < text.size() && (IsHostCharacter(text[end]) || text[end] == '-' || text[end] == '_')) ++end;
    const Text label = text.substr(at, end - at);
    if (label.empty()) return false;
    if (end < text.size() && text[end] == '.') {
      if (label.size() > kLongestLabel || !IsHostCharacter(label.front()) || !IsHostCharacter(label.back()))
        return false;
      has_label = true;
      at = end + 1;
      continue;
    }
    if (!has_label || label.size() < 2 || label.size() > kLongestDomain ||
        !std::all_of(label.begin(), label.end(), IsLower))
      return false;
    at = end;
    break;
  }
  if (at < text.size() && text[at] == ':') {
    size_t end = at + 1;
    while (end < text.size() && IsDigit(text[end])) ++end;
    if (end - at < 3 || end - at > 6) return false;
    at = end;
  }
  return at == text.size() || In(U"/?#", text[at]);
}

}  // namespace

size_t EnglishPrefix(Text text) {
  if (text.empty()) return 0;
  const char32_t c = text[0];
  if (c == '.') return Dots(text, 0);
  if (In(U"§%=", c) || StandsApart(c)) return 1;
  if (c == '+') return text.size() == 1 || !IsDigit(text[1]) ? 1 : 0;
  return CurrencyPrefix(text);
}

size_t EnglishSuffix(Text text) {
  if (text.empty()) return 0;
  const char32_t c = text.back();
  if (c == '.') {
    const size_t rest = text.find_last_not_of(U'.') + 1;
    const size_t dots = text.size() - rest;
    return dots >= 2 ? dots : EndsSentence(text) ? 1 : 0;
  }
  if ((c == 's' || c == 'S') && text.size() >= 2 && In(U"'’", text[text.size() - 2])) return 2;
  if (text.ends_with(U"……")) return 2;
  if (StandsApart(c)) return 1;
  return MeasureSuffix(text);
}

size_t EnglishInfix(Text text, size_t at) {
  const char32_t c = text[at];
  if (IsAsciiLetter(c) || IsDigit(c)) return 0;
  if (c == '.' && Dots(text, at) > 0) return Dots(text, at);
  if (c == U'…' || IsSymbol(c)) return 1;
  if (at + 1 == text.size()) return 0;
  const char32_t before = text[at - 1], after = text[at + 1];
  if (In(U"+-*^", c) && IsDigit(before) && (IsDigit(after) || after == '-')) return 1;
  if (c == '.') return (IsLower(before) || In(kQuotes, before)) && (IsUpper(after) || In(kQuotes, after)) ? 1 : 0;
  if (c == ',') return IsLetter(before) && IsLetter(after) ? 1 : 0;
  if (!IsLetter(before) && !IsDigit(before)) return 0;
  if (In(U":<>=/~", c) || IsDash(c)) {
    if (IsLetter(after)) return 1;
    return text.substr(at, 2) == U"——" && at + 2 < text.size() && IsLetter(text[at + 2]) ? 2 : 0;
  }
  if (c != '-') return 0;
  const size_t end = std::min(text.find_first_not_of(U'-', at), text.size());
  return end - at <= 3 && end < text.size() && IsLetter(text[end]) ? end - at : 0;
}

// With a name before the last @, else after the scheme, else from the beginning.
bool IsEnglishAddress(Text text) {
  if (text.find(U'.') == Text::npos) return false;
  if (const size_t name = text.rfind(U'@'); name != Text::npos && name > 0 && IsHost(text, name + 1)) return true;
  const size_t scheme = text.find(U"://");
  const auto in_scheme = [](char32_t c) { return IsLetter(c) || IsDigit(c) || In(U"_+-.", c); };
  if (scheme != Text::npos && scheme >= 2 &&
      std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(scheme), in_scheme) && IsHost(text, scheme + 3))
    return true;
  return IsHost(text, 0);
}

}  // namespace lshformer
