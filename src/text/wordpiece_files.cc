// A tokenizer's folder: vocab.txt (or tokenizer.json), and beside it HF's tokenizer_config.json and
// special_tokens_map.json.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "text/tokenizer_json.h"
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

void ReadAddedTokens(const Json& config, const std::string& where, WordPieceOptions& options) {
  if (!HasValue(config, "added_tokens_decoder")) return;
  const Json& tokens = config["added_tokens_decoder"];
  if (!tokens.is_object()) Fail("{}: \"added_tokens_decoder\": expected an object, got {}", where, tokens.type_name());
  for (const auto& [key, value] : tokens.items()) {
    AddedToken token = ReadAddedToken(value, fmt::format("{}: \"added_tokens_decoder\"", where));
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
      options.*named.token = ReadAddedToken(json[named.key], fmt::format("{}: \"{}\"", where, named.key)).content;
    }
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!HasValue(json, key) || !json[key].is_array()) continue;
    for (const Json& token : json[key]) {
      const AddedToken added = ReadAddedToken(token, fmt::format("{}: \"{}\"", where, key));
      const auto same = [&](const AddedToken& other) { return other.content == added.content; };
      if (std::none_of(options.added.begin(), options.added.end(), same)) options.added.push_back(added);
    }
  }
}

}  // namespace

WordPieceOptions ReadWordPieceOptions(const std::string& folder) {
  WordPieceOptions options;
  if (const std::string path = In(folder, kSpecialFile); std::filesystem::exists(path)) {
    ReadNamedTokens(ReadJsonObject(path), path, options);
  }
  const std::string path = In(folder, kConfigFile);
  if (!std::filesystem::exists(path)) return options;
  const Json config = ReadJsonObject(path);
  options.normalizer.lowercase = GetBoolOr(config, "do_lower_case", path, true);
  options.normalizer.strip_accents = GetBoolOr(config, "strip_accents", path, options.normalizer.lowercase);
  options.normalizer.ideographs = GetBoolOr(config, "tokenize_chinese_chars", path, true);
  options.clean_up_spaces = GetBoolOr(config, "clean_up_tokenization_spaces", path, false);
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
  // Committed together: a full disk does not leave half a tokenizer.
  AtomicFile vocab_file(In(folder, "vocab.txt")), config_file(In(folder, kConfigFile)),
      special_file(In(folder, kSpecialFile));
  vocab_file.Write(vocab);
  config_file.Write(config.dump(2) + "\n");
  special_file.Write(special.dump(2) + "\n");
  for (AtomicFile* file : {&vocab_file, &config_file, &special_file}) file->Flush();
  for (AtomicFile* file : {&special_file, &config_file, &vocab_file}) file->Commit();
}

std::shared_ptr<const Tokenizer> Tokenizer::Load(const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    Fail("{}: no such folder; a tokenizer is a folder on this machine, names are not downloaded", Shown(folder, 120));
  const std::string path = In(folder, "vocab.txt"), json = In(folder, "tokenizer.json");
  WordPieceOptions options = ReadWordPieceOptions(folder);
  if (std::filesystem::exists(path)) {
    return std::make_shared<WordPieceTokenizer>(ReadFile(path, Vocabulary::kMaxBytes), path, options);
  }
  if (!std::filesystem::exists(json)) Fail("{}: no vocab.txt and no tokenizer.json in this folder", Shown(folder));
  return std::make_shared<WordPieceTokenizer>(ReadTokenizerJson(json, options), json, options);
}

}  // namespace lshformer
