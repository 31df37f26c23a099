#include "text/clean_up.h"

#include <utility>

namespace lshformer {
namespace {

using Rule = std::pair<std::string_view, std::string_view>;
constexpr Rule kRules[] = {{" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
                           {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

}  // namespace

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

void CleanUpSpaces(std::string& text) {
  for (const auto& [from, to] : kRules) ReplaceAll(text, from, to);
}

}  // namespace lshformer
