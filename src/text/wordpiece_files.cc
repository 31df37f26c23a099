// A tokenizer's folder: vocab.txt, and beside it HF's tokenizer_config.json and special_tokens_map.json.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "text/wordpiece.h"

namespace lshformer {
namespace {

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";

std::string In(const std::string& folder, const char* name) { return (std::filesystem::path(folder) / name).string(); }

struct NamedToken {
  const char* key;
  std::string WordPieceOptions::*token;
};
constexpr NamedToken kNamedTokens[] = {{"unk_token", &WordPieceOptions::unk},
                                       {"sep_token", &WordPieceOptions::sep},
                                       {"pad_token", &WordPieceOptions::pad},
                                       {"cls_token", &WordPieceOptions::cls},
                                       {"mask_token", &WordPieceOptions::mask}};

bool BoolOr(const Json& object, const char* key, const std::string& where, bool fallback) {
  return HasValue(object, key) ? GetBool(object, key, where) : fallback;
}

AddedToken ReadToken(const Json& token, const std::string& where) {
  AddedToken added;
  if (token.is_string()) {
    added.content = token.get<std::string>();
  } else if (token.is_object()) {
    added.content = GetString(token, "content", where);
    added.special = BoolOr(token, "special", where, true);
    added.lstrip = BoolOr(token, "lstrip", where, false);
    added.rstrip = BoolOr(token, "rstrip", where, false);
    added.single_word = BoolOr(token, "single_word", where, false);
    if (BoolOr(token, "normalized", where, false)) {
      Fail("{}: token \"{}\" is \"normalized\"; only tokens that are matched verbatim are supported", where,
           Shown(added.content));
    }
  } else {
    Fail("{}: expected a token as a string or an object, got {}", where, token.type_name());
  }
  if (added.content.empty()) Fail("{}: expected a token, got an empty string", where);
  return added;
}

void ReadAddedTokens(const Json& config, const std::string& where, WordPieceOptions& options) {
  if (!HasValue(config, "added_tokens_decoder")) return;
  const Json& tokens = config["added_tokens_decoder"];
  if (!tokens.is_object()) Fail("{}: \"added_tokens_decoder\": expected an object, got {}", where, tokens.type_name());
  for (const auto& [key, value] : tokens.items()) {
    AddedToken token = ReadToken(value, fmt::format("{}: \"added_tokens_decoder\"", where));
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0) {
      Fail("{}: \"added_tokens_decoder\": expected a token id as key, got \"{}\"", where, Shown(key));
    }
    options.added.push_back(std::move(token));
  }
  // Tokens that the vocabulary lacks are appended in the order of their ids.
  std::stable_sort(options.added.begin(), options.added.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

void ReadNamedTokens(const Json& json, const std::string& where, WordPieceOptions& options) {
  for (const NamedToken& named : kNamedTokens) {
    if (HasValue(json, named.key)) {
      options.*named.token = ReadToken(json[named.key], fmt::format("{}: \"{}\"", where, named.key)).content;
    }
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!HasValue(json, key) || !json[key].is_array()) continue;
    for (const Json& token : json[key]) {
      const AddedToken added = ReadToken(token, fmt::format("{}: \"{}\"", where, key));
      const auto same = [&](const AddedToken& other) { return other.content == added.content; };
      if (std::none_of(options.added.begin(), options.added.end(), same)) options.added.push_back(added);
    }
  }
}

Json ReadObject(const std::string& path) {
  Json json = ReadJsonFile(path);
  if (!json.is_object()) Fail("{}: expected a JSON object, got {}", path, json.type_name());
  return json;
}

}  // namespace

WordPieceOptions ReadWordPieceOptions(const std::string& folder) {
  WordPieceOptions options;
  if (const std::string path = In(folder, kSpecialFile); std::filesystem::exists(path)) {
    ReadNamedTokens(ReadObject(path), path, options);
  }
  const std::string path = In(folder, kConfigFile);
  if (!std::filesystem::exists(path)) return options;
  const Json config = ReadObject(path);
  options.normalizer.lowercase = BoolOr(config, "do_lower_case", path, true);
  options.normalizer.strip_accents = BoolOr(config, "strip_accents", path, options.normalizer.lowercase);
  options.normalizer.ideographs = BoolOr(config, "tokenize_chinese_chars", path, true);
  options.clean_up_spaces = BoolOr(config, "clean_up_tokenization_spaces", path, false);
  ReadAddedTokens(config, path, options);
  ReadNamedTokens(config, path, options);
  return options;
}

void WordPieceTokenizer::Save(const std::string& folder) const {
  std::string vocab;
  for (int32_t id = 0; id < vocab_size(); ++id) vocab.append(Token(id)).append("\n");

  Json decoder = Json::object();
  for (const AddedToken& token : added_.tokens()) {
    decoder[std::to_string(token.id)] = {
        {"content", token.content}, {"lstrip", token.lstrip},           {"normalized", false},
        {"rstrip", token.rstrip},   {"single_word", token.single_word}, {"special", token.special}};
  }
  const NormalizerOptions& normalizer = options_.normalizer;
  Json config = {{"added_tokens_decoder", decoder}, {"do_lower_case", normalizer.lowercase}};
  config["strip_accents"] = normalizer.strip_accents == normalizer.lowercase ? Json() : Json(normalizer.strip_accents);
  config["tokenize_chinese_chars"] = normalizer.ideographs;
  config["tokenizer_class"] = "BertTokenizer";
  config["clean_up_tokenization_spaces"] = options_.clean_up_spaces;
  Json special = Json::object();
  for (const NamedToken& named : kNamedTokens) config[named.key] = special[named.key] = options_.*named.token;

  MakeFolder(folder);
  WriteFileAtomically(In(folder, "vocab.txt"), vocab);
  WriteFileAtomically(In(folder, kConfigFile), config.dump(2) + "\n");
  WriteFileAtomically(In(folder, kSpecialFile), special.dump(2) + "\n");
}

std::shared_ptr<const Tokenizer> Tokenizer::Load(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) Fail("{}: expected a tokenizer's folder", Shown(folder));
  const std::string path = In(folder, "vocab.txt");
  if (!std::filesystem::exists(path)) Fail("{}: no vocab.txt in this folder", Shown(folder));
  const WordPieceOptions options = ReadWordPieceOptions(folder);
  return std::make_shared<WordPieceTokenizer>(ReadFile(path, Vocabulary::kMaxBytes), path, options);
}

}  // namespace lshformer
