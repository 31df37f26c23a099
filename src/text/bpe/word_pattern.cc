#include "text/bpe/word_pattern.h"

#include <array>
#include <string>

#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLaterBegin = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
constexpr std::string_view kLaterEnd = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<LetterClass, 128> AsciiLetterClasses() {
  std::array<LetterClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    classes[c] = letter                                 ? LetterClass::kLetter
                 : c >= '0' && c <= '9'                 ? LetterClass::kNumber
                 : c == ' ' || (c >= '\t' && c <= '\r') ? LetterClass::kSpace
                                                        : LetterClass::kOther;
  }
  return classes;
}
constexpr std::array<LetterClass, 128> kAsciiLetterClass = AsciiLetterClasses();

class WordScanner {
 public:
  WordScanner(const WordPattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}

  size_t End(size_t begin) const {
    size_t at = begin;
    const LetterClass kind = Next(at);
    if (text_[begin] == '\'')
      if (const size_t end = ContractionEnd(begin); end > begin) return end;
    if (kind == LetterClass::kLetter) return RunEnd(LetterClass::kLetter, at);
    if (kind == LetterClass::kNumber) return NumberEnd(begin);
    // One character that leads a word: a space, in the later form whatever is no line break.
    const bool leads = pattern_.later ? !IsBreak(text_[begin]) : text_[begin] == ' ';
    if (leads && at < text_.size()) {
      size_t behind = at;
      const LetterClass next = Next(behind);
      if (next == LetterClass::kLetter) return RunEnd(LetterClass::kLetter, behind);
      if (next == LetterClass::kNumber && !pattern_.later) return NumberEnd(at);
      if (next == LetterClass::kOther && text_[begin] == ' ') return SymbolsEnd(behind);
    }
    return kind == LetterClass::kSpace ? SpacesEnd(begin) : SymbolsEnd(at);
  }

 private:
  static bool IsBreak(char c) { return c == '\r' || c == '\n'; }

  // The class of the character at `at`, which moves past it.
  LetterClass Next(size_t& at) const {
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) {
      ++at;
      return kAsciiLetterClass[byte];
    }
    const char* next = text_.data() + at;
    const char32_t c = NextCodePoint(next);
    at = static_cast<size_t>(next - text_.data());
    return LetterClassOf(c);
  }

  size_t RunEnd(LetterClass kind, size_t at) const {
    for (size_t next = at; next < text_.size() && Next(next) == kind;) at = next;
    return at;
  }

  size_t NumberEnd(size_t at) const {
    size_t next = at;
    for (size_t digits = 0; digits < pattern_.digits && next < text_.size() && Next(next) == LetterClass::kNumber;
         ++digits)
      at = next;
    return at;
  }

  size_t SymbolsEnd(size_t at) const {
    at = RunEnd(LetterClass::kOther, at);
    while (pattern_.later && at < text_.size() && IsBreak(text_[at])) ++at;
    return at;
  }

  // All white space, but for the last character of it before something else, if it is not the only one; in the later
  // form up to the last line break.
  size_t SpacesEnd(size_t begin) const {
    size_t end = begin, last = begin, after_break = begin;
    for (size_t next = begin; next < text_.size() && Next(next) == LetterClass::kSpace;) {
      last = end;
      end = next;
      if (IsBreak(text_[last])) after_break = end;
    }
    if (pattern_.later && after_break > begin) return after_break;
    return end < text_.size() && last > begin ? last : end;
  }

  size_t ContractionEnd(size_t begin) const {
    const std::string_view behind = text_.substr(begin + 1);
    const auto is = [&](size_t index, char letter) {
      if (index >= behind.size()) return false;
      const char c = behind[index];
      return c == letter || (pattern_.later && c >= 'A' && c <= 'Z' && c + 32 == letter);
    };
    for (const char letter : {'s', 't', 'm', 'd'})
      if (is(0, letter)) return begin + 2;
    // ſ, whose capital is S.
    if (pattern_.later && behind.starts_with("\u017f")) return begin + 3;
    for (const char* two : {"re", "ve", "ll"})
      if (is(0, two[0]) && is(1, two[1])) return begin + 3;
    return begin;
  }

  const WordPattern pattern_;
  const std::string_view text_;
};

}  // namespace

std::optional<WordPattern> WordPatternOf(std::string_view expression) {
  if (expression == kGpt2Expression) return WordPattern{};
  if (!expression.starts_with(kLaterBegin) || !expression.ends_with(kLaterEnd)) return std::nullopt;
  const std::string_view digits = expression.substr(
      kLaterBegin.size(), expression.size() - std::min(expression.size(), kLaterBegin.size() + kLaterEnd.size()));
  if (expression.size() < kLaterBegin.size() + kLaterEnd.size()) return std::nullopt;
  if (digits == "{1,3}") return WordPattern{.later = true, .digits = 3};
  if (digits.empty()) return WordPattern{.later = true, .digits = 1};
  if (digits == "+") return WordPattern{.later = true};
  return std::nullopt;
}

size_t WordEnd(const WordPattern& pattern, std::string_view text, size_t begin) {
  return WordScanner(pattern, text).End(begin);
}

}  // namespace lshformer
