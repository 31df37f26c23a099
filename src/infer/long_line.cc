#include "infer/long_line.h"

#include "text/tokenizer.h"

namespace lshformer {
namespace {

bool IsHex(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

// The bytes of the escape sequence at the backslash `i`; 0 if it is none that JSON knows. *high: the first half of a
// surrogate pair.
size_t EscapeBytes(std::string_view json, size_t i, bool* high) {
  if (i + 1 >= json.size() || std::string_view("\"\\/bfnrtu").find(json[i + 1]) == json.npos) return 0;
  if (json[i + 1] != 'u') return 2;
  if (i + 5 >= json.size()) return 0;
  for (size_t k = i + 2; k < i + 6; ++k) {
    if (!IsHex(json[k])) return 0;
  }
  *high = (json[i + 2] | 0x20) == 'd' && std::string_view("89abAB").find(json[i + 3]) != std::string_view::npos;
  return 6;
}

// The end of the string literal that begins at the quote `begin`: the place of its closing quote; npos if it has none
// or holds what JSON forbids. *cut: where to end it within `longest` bytes: at the last space, or where a text has
// none, as in Chinese, after the last whole character.
size_t EndOfLiteral(std::string_view json, size_t begin, size_t longest, size_t* cut) {
  size_t space = 0, character = 0, bytes = 1;
  bool high = false;
  for (size_t i = begin + 1; i < json.size(); i += bytes) {
    const char c = json[i];
    const bool continuation = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (i - begin <= longest && !continuation && !high) character = i;
    if (i - begin <= longest && c == ' ') space = i;
    *cut = space > 0 ? space : character;
    if (c == '"') return i;
    if (static_cast<unsigned char>(c) < 0x20) return json.npos;
    if (!continuation) high = false;
    bytes = c == '\\' ? EscapeBytes(json, i, &high) : 1;
    if (bytes == 0) return json.npos;
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
    size_t cut = 0;
    const size_t end = EndOfLiteral(json, i, longest, &cut);
    if (end == json.npos) return std::nullopt;
    const bool text = depth == 1 && value && (last == "text" || last == "text_pair");
    if (text && end - i > longest) {
      out.append(json.substr(copied, cut - copied));
      copied = end;
    }
    if (!value) last = json.substr(i + 1, end - i - 1);
    i = end;
  }
  if (copied == 0) return std::nullopt;
  return out.append(json.substr(copied));
}

}  // namespace lshformer
