#include <utility>

#include "text/wordpiece.h"

namespace lshformer {
namespace {

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  size_t begin = 0;
  for (; at != std::string::npos; at = text.find(from, begin)) {
    out.append(text, begin, at - begin).append(to);
    begin = at + from.size();
  }
  text = out.append(text, begin);
}

using Rule = std::pair<std::string_view, std::string_view>;

// HF cleans twice: its decoder each token with the space before it, and, where the settings say so, the whole text.
constexpr Rule kRules[] = {{" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
                           {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
constexpr Rule kTokenRule = {" do not", " don't"};  // of single tokens alone; after " 'm" in HF, but that is the same

void CleanUp(std::string& text) {
  for (const auto& [from, to] : kRules) ReplaceAll(text, from, to);
}

}  // namespace

std::string WordPieceTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string text;
  bool first = true;
  for (const int32_t id : ids) {
    std::string token = Token(id);
    if (skip_special_tokens && IsSpecial(id)) continue;
    if (!first) token = token.starts_with("##") ? token.substr(2) : " " + token;
    CleanUp(token);
    ReplaceAll(token, kTokenRule.first, kTokenRule.second);
    text += token;
    first = false;
  }
  if (options_.clean_up_spaces) CleanUp(text);
  return text;
}

}  // namespace lshformer
