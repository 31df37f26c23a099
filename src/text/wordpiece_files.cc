// A tokenizer's folder: vocab.txt (or tokenizer.json), and beside it HF's tokenizer_config.json and
// special_tokens_map.json.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "text/tokenizer_json.h"
#include "text/wordpiece.h"

namespace lshformer {
namespace {

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";
constexpr const char* kVocabularyFile = "vocab.txt";
constexpr const char* kJsonFile = "tokenizer.json";
// What a folder of BERT's tokenizer may have; the last is of early releases.
constexpr const char* kAllFiles[] = {kVocabularyFile, kJsonFile, kConfigFile, kSpecialFile, "added_tokens.json"};

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

// Where transformers knows none it writes 10^30.
int64_t MaxLength(const Json& config) {
  if (!HasValue(config, "model_max_length") || !config["model_max_length"].is_number()) return 0;
  const double length = config["model_max_length"].get<double>();
  return length >= 1 && length <= INT32_MAX ? static_cast<int64_t>(length) : 0;
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
  options.model_max_length = MaxLength(config);
  ReadAddedTokens(config, path, options);
  ReadNamedTokens(config, path, options);
  return options;
}

Json WordPieceTokenizer::ConfigJson() const {
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
  config.update(SpecialJson());
  return config;
}

Json WordPieceTokenizer::SpecialJson() const {
  Json special = Json::object();
  for (const NamedToken& named : kNamedTokens) special[named.key] = options_.*named.token;
  return special;
}

void WordPieceTokenizer::Save(const std::string& folder, int64_t max_length) const {
  TokenizerFiles files = files_;
  if (!files.contains(kJsonFile) && !files.contains(kVocabularyFile)) {
    std::string& vocab = files[kVocabularyFile];
    for (int32_t id = 0; id < vocab_size(); ++id) vocab.append(Token(id)).append("\n");
  }
  const bool made = !files.contains(kConfigFile);
  if (made || (max_length > 0 && max_length != options_.model_max_length)) {
    Json config = made ? ConfigJson() : ParseJson(files[kConfigFile], kConfigFile);
    if (max_length > 0) config["model_max_length"] = max_length;
    files[kConfigFile] = config.dump(2) + "\n";
  }
  if (!files.contains(kSpecialFile)) files[kSpecialFile] = SpecialJson().dump(2) + "\n";

  MakeFolder(folder);
  // Committed together: a full disk does not leave half a tokenizer.
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const auto& [name, contents] : files) {
    written.push_back(std::make_unique<AtomicFile>(In(folder, name.c_str())));
    written.back()->Write(contents);
    written.back()->Flush();
  }
  for (const std::unique_ptr<AtomicFile>& file : written) file->Commit();
  // One that an earlier tokenizer left would contradict these, and some programs would read it first.
  std::error_code ignored;
  for (const char* name : kAllFiles)
    if (!files.contains(name)) std::filesystem::remove(In(folder, name), ignored);
}

std::shared_ptr<const Tokenizer> Tokenizer::Load(const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    Fail("{}: no such folder; a tokenizer is a folder on this machine, names are not downloaded", Shown(folder, 120));
  const std::string path = In(folder, kVocabularyFile), json = In(folder, kJsonFile);
  WordPieceOptions options = ReadWordPieceOptions(folder);
  TokenizerFiles files;
  for (const char* name : kAllFiles) {
    std::error_code error;
    if (std::filesystem::is_regular_file(In(folder, name), error))
      files[name] = ReadFile(In(folder, name), Vocabulary::kMaxBytes);
  }
  if (std::filesystem::exists(path)) {
    const std::string vocabulary =
        files.contains(kVocabularyFile) ? files[kVocabularyFile] : ReadFile(path, Vocabulary::kMaxBytes);
    return std::make_shared<WordPieceTokenizer>(vocabulary, path, options, std::move(files));
  }
  if (!std::filesystem::exists(json)) Fail("{}: no vocab.txt and no tokenizer.json in this folder", Shown(folder));
  return std::make_shared<WordPieceTokenizer>(ReadTokenizerJson(json, options), json, options, std::move(files));
}

}  // namespace lshformer
