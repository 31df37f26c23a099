#include "text/added_tokens.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

bool Has(std::string_view text, size_t at, bool (*property)(char32_t)) {
  const char* next = text.data() + at;
  return property(NextCodePoint(next));
}

bool IsWordCharacter(char32_t c) { return (CharFlags(c) & kWordCharacter) != 0; }

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && Has(text, at, IsAnySpace)) {
    const char* next = text.data() + at;
    NextCodePoint(next);
    at = static_cast<size_t>(next - text.data());
  }
  return at;
}

}  // namespace

AddedToken ReadAddedToken(const Json& token, const std::string& where, bool special) {
  AddedToken added;
  if (token.is_string()) {
    added.content = token.get<std::string>();
  } else if (token.is_object()) {
    added.content = GetString(token, "content", where);
    added.special = GetBoolOr(token, "special", where, special);
    added.lstrip = GetBoolOr(token, "lstrip", where, false);
    added.rstrip = GetBoolOr(token, "rstrip", where, false);
    added.single_word = GetBoolOr(token, "single_word", where, false);
    added.normalized = GetBoolOr(token, "normalized", where, !added.special);
  } else {
    Fail("{}: expected a token as a string or an object, got {}", where, token.type_name());
  }
  if (added.content.empty()) Fail("{}: expected a token, got an empty string", where);
  return added;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize) : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string, int32_t>> verbatim;
  std::map<std::string, int32_t> normalized;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    if (token.special) special_ids_.insert(token.id);
    if (!token.normalized) {
      verbatim.emplace_back(token.content, static_cast<int32_t>(i));
    } else if (std::string text = normalize(token.content); !text.empty()) {
      normalized[std::move(text)] = static_cast<int32_t>(i);
    }
  }
  verbatim_ = MakePatterns(verbatim);
  normalized_ = MakePatterns({normalized.begin(), normalized.end()});
}

AddedTokens::Patterns AddedTokens::MakePatterns(const std::vector<std::pair<std::string, int32_t>>& texts) {
  Patterns patterns;
  for (const auto& [text, token] : texts)
    if (patterns.first_bytes.find(text[0]) == std::string::npos) patterns.first_bytes += text[0];
  patterns.trie = Trie({texts.begin(), texts.end()});
  return patterns;
}

AddedTokens::Match AddedTokens::Find(const Patterns& patterns, std::string_view text, const Match& before) const {
  const std::string& first_bytes = patterns.first_bytes;
  for (size_t at = before.own_end; at < text.size();) {
    // One byte, "[", is the rule, and the search for one byte is many times faster.
    at = first_bytes.size() == 1 ? text.find(first_bytes[0], at) : text.find_first_of(first_bytes, at);
    if (at == std::string_view::npos) break;
    const Trie::Match match = patterns.trie.LongestPrefix(text.substr(at));
    if (match.value < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    const size_t own_end = at + match.length;
    const bool inside = (at > 0 && Has(text, PreviousCodePoint(text, at), IsWordCharacter)) ||
                        (own_end < text.size() && Has(text, own_end, IsWordCharacter));
    const size_t begin = token.lstrip ? std::max(SkipSpaceBack(text, before.end, at), before.end) : at;
    const size_t end = token.rstrip ? SkipSpace(text, own_end) : own_end;
    if ((token.single_word && inside) || begin >= end) {
      at = own_end;
      continue;
    }
    return {begin, end, own_end, &token};
  }
  return {text.size(), text.size(), text.size(), nullptr};
}

}  // namespace lshformer
