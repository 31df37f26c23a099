#include "text/normalized_text.h"

#include "text/utf8.h"

namespace lshformer {
namespace {

bool IsLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

}  // namespace

NormalizedText OriginalText(std::string_view text, int32_t first) {
  NormalizedText characters;
  characters.reserve(text.size());
  const char* next = text.data();
  for (const char* const end = next + text.size(); next < end; ++first)
    characters.push_back({NextCodePoint(next), first, first + 1});
  return characters;
}

std::string Utf8Of(NormalizedSpan text, std::vector<uint32_t>* places) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    AppendUtf8(text[i].c, bytes);
    if (places != nullptr) places->resize(bytes.size(), static_cast<uint32_t>(i));
  }
  if (places != nullptr) places->push_back(static_cast<uint32_t>(text.size()));
  return bytes;
}

size_t StretchEnd(std::string_view text, size_t begin, size_t most) {
  if (text.size() - begin <= most) return text.size();
  const size_t limit = begin + most;
  for (size_t at = limit; at > begin + 1; --at)
    if (text[at] == ' ' && IsLetterOrDigit(text[at - 1])) return at;
  size_t at = limit;
  while (!BeginsCodePoint(text[at])) --at;
  return at;
}

}  // namespace lshformer
