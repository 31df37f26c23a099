// Tokens that are recognised whole in a text: [MASK] and its like verbatim, before anything is normalised; those that
// are "normalized" in what the tokenizer's normaliser made of the text, their own text normalised likewise.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "text/normalized_text.h"
#include "text/trie.h"

namespace lshformer {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = true;
  bool lstrip = false, rstrip = false;  // takes the white space before, after
  bool single_word = false;             // not inside a word
  bool normalized = false;              // matched in normalised text

  bool operator==(const AddedToken&) const = default;
};

// A token of HF's tokenizer files: its text, which is a special token's, or an object with "content" and the flags
// above; an object that does not say whether it is special is as `special` says, and matched in normalised text if it
// is none. Error names `where`.
AddedToken ReadAddedToken(const Json& token, const std::string& where, bool special);

class AddedTokens {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // bytes; begin == text.size(): no match
    size_t own_end = 0;         // without the white space that it takes
    const AddedToken* token = nullptr;
  };
  using Normalize = std::function<std::string(const std::string&)>;

  AddedTokens() = default;
  // `normalize` is asked for the text of tokens that are "normalized". Of several that it makes the same, the last
  // counts; one that it leaves nothing of is never found.
  AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize);

  // The leftmost match of a token behind the one `before` (a Match{} to begin with), the longest of those. As with HF a
  // token may lie in white space that the one before took, and begin or even end before that one's end: only one with
  // "lstrip" leaves that space to the other. What follows is what stands behind its end. `text` is valid UTF-8.
  Match Find(std::string_view text, const Match& before) const { return Find(verbatim_, text, before); }
  // The same in normalised text, of tokens that are "normalized".
  Match FindNormalized(std::string_view text, const Match& before) const { return Find(normalized_, text, before); }
  bool has_normalized() const { return !normalized_.first_bytes.empty(); }
  bool IsSpecial(int32_t id) const { return special_ids_.contains(id); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  struct Patterns {
    Trie trie;                // to indices into tokens_
    std::string first_bytes;  // of all patterns, each once
  };
  static Patterns MakePatterns(const std::vector<std::pair<std::string, int32_t>>& texts);
  Match Find(const Patterns& patterns, std::string_view text, const Match& before) const;

  std::vector<AddedToken> tokens_;
  std::unordered_set<int32_t> special_ids_;
  Patterns verbatim_, normalized_;
};

// Parts of a normalised text: those that are a "normalized" token, and what lies between them, with nullptr; none is
// empty, and a token's may overlap with that of the one before (Find). Calls action(token, part) until it returns
// false.
template <class Action>
void ForEachPart(const AddedTokens& tokens, const NormalizedText& text, const Action& action) {
  if (!tokens.has_normalized()) {
    if (!text.empty()) action(nullptr, NormalizedSpan(text));
    return;
  }
  std::vector<uint32_t> places;
  const std::string bytes = Utf8Of(text, &places);
  const auto part = [&](size_t begin, size_t end) {
    return NormalizedSpan(text).subspan(places[begin], places[end] - places[begin]);
  };
  AddedTokens::Match match;
  for (size_t at = 0;;) {
    match = tokens.FindNormalized(bytes, match);
    if (match.begin > at && !action(nullptr, part(at, match.begin))) return;
    if (match.token == nullptr || !action(match.token, part(match.begin, match.end))) return;
    at = match.end;
  }
}

}  // namespace lshformer
