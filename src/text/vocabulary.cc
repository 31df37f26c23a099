#include "text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/tokenizer.h"

namespace lshformer {

Vocabulary::Vocabulary(std::string_view contents, std::string_view where) {
  if (contents.size() > kMaxBytes) Fail("{}: expected at most {} bytes, got {}", where, kMaxBytes, contents.size());
  if (contents.empty()) Fail("{}: expected one token a line, got an empty file", where);
  for (size_t at = 0, line = 1; at < contents.size(); ++line) {
    const size_t end = std::min(contents.find('\n', at), contents.size());
    std::string_view token = contents.substr(at, end - at);
    if (token.ends_with('\r')) token.remove_suffix(1);
    if (token.empty()) Fail("{}:{}: expected a token, got a blank line", where, line);
    if (token.size() > kMaxTokenBytes) Fail("{}:{}: the line is longer than {} bytes", where, line, kMaxTokenBytes);
    if (!IsValidUtf8(token)) Fail("{}:{}: expected UTF-8, got \"{}\"", where, line, Shown(token));
    tokens_.emplace_back(token);
    at = end + 1;
  }
  ids_.reserve(tokens_.size());
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const auto [earlier, is_new] = ids_.emplace(tokens_[id], static_cast<int32_t>(id));
    if (!is_new)
      Fail("{}:{}: token \"{}\" is already on line {}", where, id + 1, Shown(tokens_[id]), earlier->second + 1);
  }
}

Vocabulary::Vocabulary(std::deque<std::string> tokens) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (size_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id], static_cast<int32_t>(id));
}

int32_t Vocabulary::Id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

int32_t Vocabulary::Add(std::string_view token) {
  const auto id = static_cast<int32_t>(tokens_.size());
  if (const int32_t known = Id(token); known >= 0) return known;
  tokens_.emplace_back(token);
  ids_.emplace(tokens_.back(), id);
  return id;
}

}  // namespace lshformer
