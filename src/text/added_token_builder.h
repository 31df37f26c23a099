// Gives a tokenizer's special and added tokens their ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer_files.h"
#include "text/vocabulary.h"

namespace lshformer {

class AddedTokenBuilder {
 public:
  // Begins with the added tokens of `settings`. Error, which names `where`, if one has another id in the vocabulary.
  AddedTokenBuilder(const TokenizerSettings& settings, Vocabulary& vocabulary, std::string_view where);
  // The id that the vocabulary has of it, or a new one at its end.
  int32_t Add(AddedToken token);
  AddedTokens Build() { return AddedTokens(std::move(tokens_)); }

 private:
  Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
};

}  // namespace lshformer
