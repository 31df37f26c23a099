#include "text/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <system_error>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "base/files.h"
#include "text/vocabulary.h"

namespace lshformer {
namespace {

// What a tokenizer's folder may have; the last is of early releases.
constexpr const char* kAllFiles[] = {kVocabularyFile, kSentencePieceFile,   kTokenizerJsonFile, kWordsFile,
                                     kCharactersFile, kTokenizerConfigFile, kSpecialTokensFile, "added_tokens.json"};

struct NamedToken {
  const char* key;
  std::string TokenizerSettings::*token;
};
constexpr NamedToken kNamedTokens[] = {{"unk_token", &TokenizerSettings::unk},
                                       {"sep_token", &TokenizerSettings::sep},
                                       {"pad_token", &TokenizerSettings::pad},
                                       {"cls_token", &TokenizerSettings::cls},
                                       {"mask_token", &TokenizerSettings::mask}};

void ReadAddedTokens(const Json& config, const std::string& where, TokenizerSettings& settings) {
  if (!HasValue(config, "added_tokens_decoder")) return;
  const Json& tokens = config["added_tokens_decoder"];
  if (!tokens.is_object()) Fail("{}: \"added_tokens_decoder\": expected an object, got {}", where, tokens.type_name());
  for (const auto& [key, value] : tokens.items()) {
    AddedToken token = ReadAddedToken(value, fmt::format("{}: \"added_tokens_decoder\"", where));
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0) {
      Fail("{}: \"added_tokens_decoder\": expected a token id as key, got \"{}\"", where, Shown(key));
    }
    settings.added.push_back(std::move(token));
  }
  // Tokens that the vocabulary lacks are appended in the order of their ids.
  std::stable_sort(settings.added.begin(), settings.added.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

void ReadNamedTokens(const Json& json, const std::string& where, TokenizerSettings& settings) {
  for (const NamedToken& named : kNamedTokens) {
    if (HasValue(json, named.key)) {
      settings.*named.token = ReadAddedToken(json[named.key], fmt::format("{}: \"{}\"", where, named.key)).content;
    }
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!HasValue(json, key) || !json[key].is_array()) continue;
    for (const Json& token : json[key]) {
      const AddedToken added = ReadAddedToken(token, fmt::format("{}: \"{}\"", where, key));
      const auto same = [&](const AddedToken& other) { return other.content == added.content; };
      if (std::none_of(settings.added.begin(), settings.added.end(), same)) settings.added.push_back(added);
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

std::string InFolder(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

Json ReadTokenizerSettings(const std::string& folder, TokenizerSettings& settings) {
  if (const std::string path = InFolder(folder, kSpecialTokensFile); std::filesystem::exists(path)) {
    ReadNamedTokens(ReadJsonObject(path), path, settings);
  }
  const std::string path = InFolder(folder, kTokenizerConfigFile);
  if (!std::filesystem::exists(path)) return Json::object();
  Json config = ReadJsonObject(path);
  settings.clean_up_spaces = GetBoolOr(config, "clean_up_tokenization_spaces", path, false);
  settings.model_max_length = MaxLength(config);
  ReadAddedTokens(config, path, settings);
  ReadNamedTokens(config, path, settings);
  return config;
}

Json TokenizerConfigJson(const TokenizerSettings& settings, const std::vector<AddedToken>& tokens) {
  Json decoder = Json::object();
  for (const AddedToken& token : tokens) {
    decoder[std::to_string(token.id)] = {
        {"content", token.content}, {"lstrip", token.lstrip},           {"normalized", false},
        {"rstrip", token.rstrip},   {"single_word", token.single_word}, {"special", token.special}};
  }
  Json config = {{"added_tokens_decoder", decoder}, {"clean_up_tokenization_spaces", settings.clean_up_spaces}};
  config.update(SpecialTokensJson(settings));
  return config;
}

Json SpecialTokensJson(const TokenizerSettings& settings) {
  Json special = Json::object();
  for (const NamedToken& named : kNamedTokens) special[named.key] = settings.*named.token;
  return special;
}

TokenizerFiles ReadTokenizerFiles(const std::string& folder) {
  TokenizerFiles files;
  for (const char* name : kAllFiles) {
    std::error_code error;
    if (std::filesystem::is_regular_file(InFolder(folder, name), error))
      files[name] = ReadOwnKind(InFolder(folder, name), Vocabulary::kMaxBytes);
  }
  return files;
}

void SaveTokenizerFiles(const std::string& folder, TokenizerFiles files, const TokenizerSettings& settings,
                        const Json& config, int64_t max_length) {
  const bool made = !files.contains(kTokenizerConfigFile);
  if (made || (max_length > 0 && max_length != settings.model_max_length)) {
    Json changed = made ? config : ParseJson(files[kTokenizerConfigFile], kTokenizerConfigFile);
    if (max_length > 0) changed["model_max_length"] = max_length;
    files[kTokenizerConfigFile] = changed.dump(2) + "\n";
  }
  if (!files.contains(kSpecialTokensFile)) files[kSpecialTokensFile] = SpecialTokensJson(settings).dump(2) + "\n";

  MakeFolder(folder);
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const auto& [name, contents] : files) {
    written.push_back(std::make_unique<AtomicFile>(InFolder(folder, name.c_str())));
    written.back()->Write(contents);
    written.back()->Flush();
  }
  for (const std::unique_ptr<AtomicFile>& file : written) file->Commit();
  // One that an earlier tokenizer left would contradict these, and some programs would read it first.
  std::error_code ignored;
  for (const char* name : kAllFiles)
    if (!files.contains(name)) std::filesystem::remove(InFolder(folder, name), ignored);
}

}  // namespace lshformer
