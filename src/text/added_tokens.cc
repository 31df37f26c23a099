#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

size_t PreviousCodePoint(std::string_view text, size_t at) {
  do --at;
  while (!BeginsCodePoint(text[at]));
  return at;
}

// White space counts as such here even where the normaliser drops it (form feed, next line).
bool IsSpace(char32_t c) { return (c >= 0x09 && c <= 0x0D) || c == 0x85 || (CharFlags(c) & kSpace) != 0; }

bool Has(std::string_view text, size_t at, bool (*property)(char32_t)) {
  const char* next = text.data() + at;
  return property(NextCodePoint(next));
}

bool IsWordCharacter(char32_t c) { return (CharFlags(c) & kWordCharacter) != 0; }

size_t SkipSpaceBack(std::string_view text, size_t floor, size_t at) {
  while (at > floor) {
    const size_t previous = PreviousCodePoint(text, at);
    if (!Has(text, previous, IsSpace)) break;
    at = previous;
  }
  return at;
}

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && Has(text, at, IsSpace)) {
    const char* next = text.data() + at;
    NextCodePoint(next);
    at = static_cast<size_t>(next - text.data());
  }
  return at;
}

}  // namespace

AddedToken ReadAddedToken(const Json& token, const std::string& where) {
  AddedToken added;
  if (token.is_string()) {
    added.content = token.get<std::string>();
  } else if (token.is_object()) {
    added.content = GetString(token, "content", where);
    added.special = GetBoolOr(token, "special", where, true);
    added.lstrip = GetBoolOr(token, "lstrip", where, false);
    added.rstrip = GetBoolOr(token, "rstrip", where, false);
    added.single_word = GetBoolOr(token, "single_word", where, false);
    if (GetBoolOr(token, "normalized", where, false)) {
      Fail("{}: token \"{}\" is \"normalized\"; only tokens that are matched verbatim are supported", where,
           Shown(added.content));
    }
  } else {
    Fail("{}: expected a token as a string or an object, got {}", where, token.type_name());
  }
  if (added.content.empty()) Fail("{}: expected a token, got an empty string", where);
  return added;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    keys.emplace_back(tokens_[i].content, static_cast<int32_t>(i));
    const char first = tokens_[i].content[0];
    if (first_bytes_.find(first) == std::string::npos) first_bytes_ += first;
  }
  trie_ = Trie(std::move(keys));
}

AddedTokens::Match AddedTokens::Find(std::string_view text, size_t begin) const {
  for (size_t at = begin; at < text.size();) {
    // One byte, "[", is the rule, and the search for one byte is many times faster.
    at = first_bytes_.size() == 1 ? text.find(first_bytes_[0], at) : text.find_first_of(first_bytes_, at);
    if (at == std::string_view::npos) break;
    const Trie::Match match = trie_.LongestPrefix(text.substr(at));
    if (match.value < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    size_t end = at + match.length;
    const bool inside = (at > 0 && Has(text, PreviousCodePoint(text, at), IsWordCharacter)) ||
                        (end < text.size() && Has(text, end, IsWordCharacter));
    if (token.single_word && inside) {
      at = end;
      continue;
    }
    if (token.lstrip) at = SkipSpaceBack(text, begin, at);
    if (token.rstrip) end = SkipSpace(text, end);
    return {at, end, &token};
  }
  return {text.size(), text.size(), nullptr};
}

bool AddedTokens::IsSpecial(int32_t id) const {
  return std::any_of(tokens_.begin(), tokens_.end(),
                     [id](const AddedToken& token) { return token.id == id && token.special; });
}

}  // namespace lshformer
