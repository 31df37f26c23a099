#include "infer/member_text.h"

#include "base/json.h"

namespace lshformer {
namespace {

// The literal that begins at the quote `begin`, its quotes included.
std::string_view Literal(std::string_view json, size_t begin) {
  size_t end = begin + 1;
  while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
  return json.substr(begin, end + 1 - begin);
}

bool Says(std::string_view literal, std::string_view key) {
  if (literal.find('\\') == literal.npos)
    return literal.size() == key.size() + 2 && literal.substr(1, key.size()) == key;
  return Json::parse(literal, nullptr, /*allow_exceptions=*/false) == Json(key);
}

}  // namespace

std::optional<std::string> MemberText(std::string_view json, std::string_view key) {
  std::string value;
  bool at_key = true, found = false, inside = false;  // inside the value
  int depth = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (inside && (depth == 0 || (depth == 1 && c == ','))) return value;
    if (c == '"') {
      const std::string_view literal = Literal(json, i);
      if (inside) value += literal;
      if (depth == 1 && at_key) found = Says(literal, key);
      i += literal.size() - 1;
    } else if (inside) {
      if (c != ' ' && c != '\t' && c != '\r' && c != '\n') value += c;
    } else if (depth == 1 && (c == ':' || c == ',')) {
      at_key = c == ',';
      inside = c == ':' && found;
    }
  }
  return std::nullopt;
}

}  // namespace lshformer
