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

// HF's list. It is applied to each token with the space before it, so most of it acts on tokens that carry a sign
// and letters together, such as "'s" in another vocabulary.
void CleanUp(std::string& token) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kRules) ReplaceAll(token, from, to);
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
    text += token;
    first = false;
  }
  return text;
}

}  // namespace lshformer
