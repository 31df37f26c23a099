#include "infer/long_line.h"

#include "text/tokenizer.h"

namespace lshformer {
namespace {

// The end of the string literal that begins at the quote `begin`: the place of its closing quote; npos if it has none
// or holds what JSON forbids. *space: the last space within `longest` bytes, or npos.
size_t EndOfLiteral(std::string_view json, size_t begin, size_t longest, size_t* space) {
  *space = json.npos;
  for (size_t i = begin + 1; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') return i;
    if (static_cast<unsigned char>(c) < 0x20) return json.npos;
    if (c == ' ' && i - begin <= longest) *space = i;
    if (c != '\\') continue;
    if (++i == json.size() || std::string_view("\"\\/bfnrtu").find(json[i]) == json.npos) return json.npos;
  }
  return json.npos;
}

}  // namespace

std::optional<std::string> WithShorterTexts(std::string_view json, size_t longest) {
  if (!IsValidUtf8(json)) return std::nullopt;
  std::string out;
  size_t copied = 0;  // up to here
  std::string_view last;
  bool value = false;  // a ':' came after the last literal
  int depth = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ':' || c == ',') value = c == ':';
    if (c != '"') continue;
    size_t space = 0;
    const size_t end = EndOfLiteral(json, i, longest, &space);
    if (end == json.npos) return std::nullopt;
    const bool text = depth == 1 && value && (last == "text" || last == "text_pair");
    if (text && end - i > longest && space != json.npos) {
      out.append(json.substr(copied, space - copied));
      copied = end;
    }
    if (!value) last = json.substr(i + 1, end - i - 1);
    i = end;
  }
  if (copied == 0) return std::nullopt;
  return out.append(json.substr(copied));
}

}  // namespace lshformer
