#include "eval/answer_text.h"

#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

struct CloseCaseMap {
  void operator()(UCaseMap* map) const { ucasemap_close(map); }
};

std::string Lower(std::string_view text) {
  if (text.empty()) return "";
  UErrorCode status = U_ZERO_ERROR;
  // The root locale "": no language's own rules.
  const std::unique_ptr<UCaseMap, CloseCaseMap> map(ucasemap_open("", 0, &status));
  if (U_FAILURE(status)) Fail("ICU has no case mappings: {}", u_errorName(status));
  constexpr size_t kMostGrowth = 3;  // a character of two bytes becomes at most three; "İ" grows from two to three
  std::string lower(kMostGrowth * text.size(), '\0');
  const int32_t bytes = ucasemap_utf8ToLower(map.get(), lower.data(), static_cast<int32_t>(lower.size()), text.data(),
                                             static_cast<int32_t>(text.size()), &status);
  if (U_FAILURE(status)) Fail("ICU: lower case: {}", u_errorName(status));
  lower.resize(static_cast<size_t>(bytes));
  return lower;
}

bool IsAsciiPunctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// str.isspace: white space, and the separators that ASCII took from punched tape.
bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// \w of Python's re without "_", which is punctuation and gone: str.isalnum.
bool IsPythonWord(char32_t c) {
  const auto character = static_cast<UChar32>(c);
  return (U_GET_GC_MASK(character) & U_GC_L_MASK) != 0 ||
         u_getIntPropertyValue(character, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool IsArticle(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

}  // namespace

std::vector<std::string> AnswerWords(std::string_view text) {
  if (text.size() > static_cast<size_t>(INT32_MAX) / 4) Fail("an answer has {} bytes", text.size());
  const std::string lower = Lower(text);
  // A piece is a run of word characters or of others; white space ends a word, an article ends it too and vanishes.
  std::vector<std::string> words;
  std::string word, piece;
  const auto end_piece = [&] {
    if (IsArticle(piece)) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += piece;
    }
    piece.clear();
  };
  const auto end_word = [&] {
    end_piece();
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  bool in_word_characters = false;
  for (const char *at = lower.data(), *end = at + lower.size(); at < end;) {
    const char32_t c = NextCodePoint(at);
    if (IsAsciiPunctuation(c)) continue;
    if (IsPythonSpace(c)) {
      end_word();
      continue;
    }
    const bool word_character = IsPythonWord(c);
    if (word_character != in_word_characters) end_piece();
    in_word_characters = word_character;
    AppendUtf8(c, piece);
  }
  end_word();
  return words;
}

double BagF1(const std::vector<std::string>& predicted, const std::vector<std::string>& gold) {
  std::map<std::string_view, int64_t> bag;
  for (const std::string& word : gold) ++bag[word];
  int64_t common = 0;
  for (const std::string& word : predicted) {
    const auto found = bag.find(word);
    if (found != bag.end() && found->second-- > 0) ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(common) / static_cast<double>(gold.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace lshformer
