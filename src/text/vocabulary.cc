#include "text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace lshformer {

Vocabulary::Vocabulary(std::string_view contents, std::string_view where) {
  if (contents.size() > kMaxBytes) Fail("{}: expected at most {} bytes, got {}", where, kMaxBytes, contents.size());
  if (contents.empty()) Fail("{}: expected one token a line, got an empty file", where);
  for (size_t at = 0, line = 1; at < contents.size(); ++line) {
    const size_t end = std::min(contents.find('\n', at), contents.size());
    std::string_view token = contents.substr(at, end - at);
    if (token.size() > kMaxTokenBytes) Fail("{}:{}: the line is longer than {} bytes", where, line, kMaxTokenBytes);
    if (!IsValidUtf8(token)) Fail("{}:{}: expected UTF-8, got \"{}\"", where, line, Shown(token));
    if (size() == kMaxTokens) Fail("{}:{}: expected at most {} tokens", where, line, kMaxTokens);
    // As HF's library reads a vocab.txt: an editor's white space at the end of a line is none of its token.
    tokens_.emplace_back(token.substr(0, SkipSpaceBack(token, 0, token.size())));
    at = end + 1;
  }
  *this = Vocabulary(std::move(tokens_));
}

Vocabulary::Vocabulary(std::deque<std::string> tokens) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (size_t id = 0; id < tokens_.size(); ++id) ids_[tokens_[id]] = static_cast<int32_t>(id);
}

int32_t Vocabulary::Id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

bool Vocabulary::Has(int32_t id) const {
  if (id < 0 || id >= size()) return false;
  const std::string& token = Token(id);
  return !token.empty() || Id(token) == id;  // a blank line is a token, a hole is none
}

int32_t Vocabulary::Add(std::string_view token) {
  if (const int32_t known = Id(token); known >= 0) return known;
  const int32_t id = size();
  Set(token, id);
  return id;
}

void Vocabulary::Set(std::string_view token, int32_t id) {
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  std::string* place = &tokens_[static_cast<size_t>(id)];
  if (Has(id)) place = &second_.emplace_back();
  *place = token;
  ids_.emplace(*place, id);
}

}  // namespace lshformer
