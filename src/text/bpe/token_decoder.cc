#include "text/bpe/token_decoder.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/bpe/byte_level.h"
#include "text/clean_up.h"
#include "text/tokenizer.h"

namespace lshformer {
namespace {

// Of a token <0x00> to <0xFF>.
std::optional<char> FallbackByte(const std::string& token) {
  int byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

}  // namespace

TokenDecoder TokenDecoder::ByteLevel() {
  TokenDecoder decoder;
  decoder.steps_.emplace_back(Bytes{});
  return decoder;
}

TokenDecoder::TokenDecoder(const Json& json, const std::string& path) {
  if (!json.is_null()) Add(json, path + ": \"decoder\"", /*inside=*/false);
}

void TokenDecoder::Add(const Json& json, const std::string& where, bool inside) {
  constexpr size_t kMostSteps = 16;
  if (!json.is_object()) Fail("{}: expected an object, got {}", where, json.type_name());
  const std::string type = GetString(json, "type", where);
  if (type == "Sequence" && !inside) {
    if (!json.contains("decoders") || !json["decoders"].is_array() || json["decoders"].size() > kMostSteps)
      Fail("{}: expected a list \"decoders\" of at most {}", where, kMostSteps);
    for (const Json& step : json["decoders"]) Add(step, where, /*inside=*/true);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(Bytes{});
  } else if (type == "Replace") {
    const Json pattern = json.contains("pattern") ? json["pattern"] : Json();
    const bool is_string =
        pattern.is_object() && pattern.contains("String") && pattern["String"].is_string() && pattern["String"] != "";
    if (!is_string) Fail("{}: Replace: expected a pattern that is a string", where);
    steps_.emplace_back(Replace{pattern["String"], GetString(json, "content", where)});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Fuse") {
    steps_.emplace_back(Fuse{});
  } else if (type == "Strip") {
    steps_.emplace_back(Strip{GetString(json, "content", where), GetInt(json, "start", where, 0, INT32_MAX),
                              GetInt(json, "stop", where, 0, INT32_MAX)});
    if (std::get<Strip>(steps_.back()).content.empty()) Fail("{}: Strip: \"content\" is empty", where);
  } else {
    Fail("{}: the type \"{}\" is not supported with a BPE model", where, Shown(type, 40));
  }
}

std::string TokenDecoder::Join(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) std::visit([&](const auto& kind) { Apply(kind, tokens); }, step);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (steps_.empty() && i > 0) text += ' ';
    text += tokens[i];
  }
  return text;
}

// A token with a character that stands for no byte is its own bytes.
void TokenDecoder::Apply(const Bytes&, Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += BytesOfCharacters(token).value_or(token);
  tokens = {CleanUtf8(bytes, nullptr)};
}

void TokenDecoder::Apply(const Replace& step, Tokens& tokens) {
  for (std::string& token : tokens) ReplaceAll(token, step.pattern, step.content);
}

void TokenDecoder::Apply(const ByteFallback&, Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto put_bytes = [&] {
    if (bytes.empty()) return;
    if (IsValidUtf8(bytes)) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = FallbackByte(token)) {
      bytes += *byte;
      continue;
    }
    put_bytes();
    out.push_back(std::move(token));
  }
  put_bytes();
  tokens = std::move(out);
}

void TokenDecoder::Apply(const Fuse&, Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  tokens = {std::move(text)};
}

void TokenDecoder::Apply(const Strip& step, Tokens& tokens) {
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (int64_t i = 0; i < step.start && rest.starts_with(step.content); ++i) rest.remove_prefix(step.content.size());
    for (int64_t i = 0; i < step.stop && rest.ends_with(step.content); ++i) rest.remove_suffix(step.content.size());
    token = std::string(rest);
  }
}

}  // namespace lshformer
