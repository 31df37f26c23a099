#include "text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

std::unique_ptr<icu::BreakIterator> MakeIterator() {
  UErrorCode status = U_ZERO_ERROR;
  std::unique_ptr<icu::BreakIterator> iterator(
      icu::BreakIterator::createSentenceInstance(icu::Locale::getRoot(), status));
  if (U_FAILURE(status)) Fail("ICU has no rules for sentences: {}", u_errorName(status));
  return iterator;
}

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

bool HasUpperCase(std::string_view text) {
  for (const char* next = text.data(); next < text.data() + text.size();)
    if (u_isupper(static_cast<UChar32>(NextCodePoint(next)))) return true;
  return false;
}

// ICU takes a full stop before a small letter for an abbreviation, so that lower-cased text would be one sentence.
void AppendAtStops(std::string_view text, std::vector<std::string_view>& sentences) {
  size_t begin = 0;
  for (size_t at = text.find_first_of(".?!"); at != text.npos; at = text.find_first_of(".?!", at)) {
    at = std::min(text.find_first_not_of(".?!\"')", at), text.size());
    if (at == text.size() || text[at] != ' ') continue;
    sentences.push_back(Stripped(text.substr(begin, at - begin)));
    begin = at;
  }
  if (const std::string_view rest = Stripped(text.substr(begin)); !rest.empty()) sentences.push_back(rest);
}

}  // namespace

std::vector<std::string_view> SplitSentences(std::string_view text) {
  thread_local const std::unique_ptr<icu::BreakIterator> iterator = MakeIterator();
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UText, decltype(&utext_close)> view(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status), &utext_close);
  if (U_SUCCESS(status)) iterator->setText(view.get(), status);
  if (U_FAILURE(status)) Fail("ICU cannot read the text: {}", u_errorName(status));
  const bool lower_cased = !HasUpperCase(text);
  std::vector<std::string_view> sentences;
  for (int32_t begin = iterator->first(), end = iterator->next(); end != icu::BreakIterator::DONE;
       begin = end, end = iterator->next()) {
    const std::string_view sentence =
        Stripped(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    if (lower_cased)
      AppendAtStops(sentence, sentences);
    else if (!sentence.empty())
      sentences.push_back(sentence);
  }
  return sentences;
}

}  // namespace lshformer
