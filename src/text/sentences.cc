#include "text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <memory>

#include "base/error.h"

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

}  // namespace

std::vector<std::string_view> SplitSentences(std::string_view text) {
  thread_local const std::unique_ptr<icu::BreakIterator> iterator = MakeIterator();
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UText, decltype(&utext_close)> view(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status), &utext_close);
  if (U_SUCCESS(status)) iterator->setText(view.get(), status);
  if (U_FAILURE(status)) Fail("ICU cannot read the text: {}", u_errorName(status));
  std::vector<std::string_view> sentences;
  for (int32_t begin = iterator->first(), end = iterator->next(); end != icu::BreakIterator::DONE;
       begin = end, end = iterator->next()) {
    const std::string_view sentence =
        Stripped(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    if (!sentence.empty()) sentences.push_back(sentence);
  }
  return sentences;
}

}  // namespace lshformer
