// Gives a tokenizer's special and added tokens their ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer_files.h"
#include "text/vocabulary.h"

namespace lshformer {

// As transformers does it: first the tokens that come with ids, then those of begin and end, the five, and further
// ones. A token of the vocabulary has the id that it has there. One that is absent has the id that the files give it
// (which leaves a hole where that lies beyond the end), or else the next one.
class AddedTokenBuilder {
 public:
  // Begins with the added tokens of `settings` and those before the five. Error, which names `where`, if one has
  // another id in the vocabulary, or an id that is another token's there.
  AddedTokenBuilder(const TokenizerSettings& settings, Vocabulary& vocabulary, std::string_view where);
  // Adds a token that is special by its name, with the flags that the files give it, else its own. Returns its id, −1
  // of one that is left out (TokenizerSettings::adds_unsaid).
  int32_t AddNamed(AddedToken token);
  // The same of the unknown token. Where the files name another than the model's, that one is added, and the model's
  // is none that is found in texts.
  int32_t AddUnknown();
  // Those after the five, and all is done.
  AddedTokens Build(const AddedTokens::Normalize& normalize);

 private:
  void SetId(const AddedToken& token);
  [[noreturn]] void FailTaken(const AddedToken& token) const;
  void AddByName(const std::vector<std::string>& names);

  const TokenizerSettings& settings_;
  Vocabulary& vocabulary_;
  const std::string where_;
  std::vector<AddedToken> tokens_;
};

}  // namespace lshformer
