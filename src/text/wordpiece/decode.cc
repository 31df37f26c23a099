#include "text/clean_up.h"
#include "text/wordpiece/wordpiece.h"

namespace lshformer {

// HF cleans twice: its decoder each token with the space before it, and, where the settings say so, the whole text.
std::string WordPieceTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string text;
  bool first = true;
  for (const int32_t id : ids) {
    std::string token = Token(id);
    if (skip_special_tokens && IsSpecial(id)) continue;
    if (!first) token = token.starts_with("##") ? token.substr(2) : " " + token;
    if (options_.cleans_tokens) {
      CleanUpSpaces(token);
      ReplaceAll(token, " do not", " don't");  // of single tokens alone; after " 'm" in HF, but that is the same
    }
    text += token;
    first = false;
  }
  if (options_.clean_up_spaces) CleanUpSpaces(text);
  return text;
}

}  // namespace lshformer
