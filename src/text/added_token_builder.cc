#include "text/added_token_builder.h"

#include <algorithm>

#include "base/error.h"

namespace lshformer {

AddedTokenBuilder::AddedTokenBuilder(const TokenizerSettings& settings, Vocabulary& vocabulary, std::string_view where)
    : vocabulary_(vocabulary) {
  for (const AddedToken& token : settings.added) {
    const int32_t id = Add(token);
    if (token.id >= 0 && token.id != id) {
      Fail("{}: token \"{}\" has id {} in the vocabulary, but {} in {}", where, Shown(token.content), id, token.id,
           settings.added_from);
    }
  }
}

int32_t AddedTokenBuilder::Add(AddedToken token) {
  token.id = vocabulary_.Add(token.content);
  const auto same = std::find_if(tokens_.begin(), tokens_.end(),
                                 [&](const AddedToken& other) { return other.content == token.content; });
  if (same == tokens_.end()) tokens_.push_back(token);
  return token.id;
}

}  // namespace lshformer
