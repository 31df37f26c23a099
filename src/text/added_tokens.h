// Tokens recognised verbatim in raw text, before anything is normalised: [MASK] and its like.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/trie.h"

namespace lshformer {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = true;
  bool lstrip = false, rstrip = false;  // takes the white space before, after
  bool single_word = false;             // not inside a word

  bool operator==(const AddedToken&) const = default;
};

// A token of HF's tokenizer files: its text, or an object with "content" and the flags above. Error names `where`.
AddedToken ReadAddedToken(const Json& token, const std::string& where);

class AddedTokens {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // bytes; begin == text.size(): no match
    const AddedToken* token = nullptr;
  };

  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The leftmost match at or after `begin`, the longest of those. `text` is valid UTF-8.
  Match Find(std::string_view text, size_t begin) const;
  bool IsSpecial(int32_t id) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;
  std::string first_bytes_;  // of all tokens, each once
};

}  // namespace lshformer
