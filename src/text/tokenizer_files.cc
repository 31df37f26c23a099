#include "text/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "base/files.h"
#include "text/vocabulary.h"

namespace lshformer {
namespace {

// What a tokenizer's folder may have; the last is of earlier releases.
constexpr const char* kAllFiles[] = {kVocabularyFile,    kBpeVocabularyFile, kMergesFile,    kSentencePieceFile,
                                     kShiftedPiecesFile, kTokenizerJsonFile, kWordsFile,     kTokenizerConfigFile,
                                     kSpecialTokensFile, kAddedTokensFile,   kCharactersFile};

struct NamedToken {
  const char* key;
  std::string TokenizerSettings::*token;
};
constexpr NamedToken kEnds[] = {{"bos_token", &TokenizerSettings::bos}, {"eos_token", &TokenizerSettings::eos}};
constexpr NamedToken kNamedTokens[] = {{"unk_token", &TokenizerSettings::unk},
                                       {"sep_token", &TokenizerSettings::sep},
                                       {"pad_token", &TokenizerSettings::pad},
                                       {"cls_token", &TokenizerSettings::cls},
                                       {"mask_token", &TokenizerSettings::mask}};

bool Holds(const std::vector<AddedToken>& tokens, std::string_view content) {
  return std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == content; });
}

void CheckId(int64_t id, const std::string& where, std::string_view token) {
  if (id < 0 || id >= Vocabulary::kMaxTokens)
    Fail("{}: expected an id from 0 to {} for \"{}\", got {}", where, Vocabulary::kMaxTokens - 1, Shown(token), id);
}

// Tokens that the vocabulary lacks are appended in the order of their ids.
void SortById(std::vector<AddedToken>& tokens) {
  std::stable_sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

void ReadDecoder(const Json& config, const std::string& path, TokenizerSettings& settings) {
  const std::string where = fmt::format("{}: \"added_tokens_decoder\"", path);
  const Json& tokens = config["added_tokens_decoder"];
  if (!tokens.is_object()) Fail("{}: expected an object, got {}", where, tokens.type_name());
  for (const auto& [key, value] : tokens.items()) {
    AddedToken token = ReadAddedToken(value, where, /*special=*/false);
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0) {
      Fail("{}: expected a token id as key, got \"{}\"", where, Shown(key));
    }
    CheckId(token.id, where, token.content);
    settings.added.push_back(std::move(token));
  }
}

// added_tokens.json: {"token": id}. Those that the other files name are special, all others are matched in normalised
// text.
void ReadAddedTokensFile(const std::string& path, TokenizerSettings& settings) {
  const Json tokens = ReadJsonObject(path);
  for (const auto& [content, id] : tokens.items()) {
    if (content.empty()) Fail("{}: expected a token, got an empty string", path);
    if (!id.is_number_integer()) Fail("{}: expected an id for \"{}\", got {}", path, Shown(content), ShownValue(id));
    CheckId(id.is_number_unsigned() && id > INT32_MAX ? INT32_MAX : id.get<int64_t>(), path, content);
    const bool special = Holds(settings.named, content);
    settings.added.push_back({.content = content, .id = id.get<int32_t>(), .special = special, .normalized = !special});
  }
  settings.added_from = kAddedTokensFile;
}

// The latest that is said of a token counts.
void Name(const AddedToken& token, TokenizerSettings& settings) {
  std::erase_if(settings.named, [&](const AddedToken& other) { return other.content == token.content; });
  settings.named.push_back(token);
}

AddedToken ReadNamedToken(const Json& token, const std::string& where) {
  AddedToken named = ReadAddedToken(token, where, /*special=*/true);
  named.special = true;
  return named;
}

void ReadFurtherTokens(const Json& tokens, const std::string& where, TokenizerSettings& settings) {
  if (!tokens.is_array() && !tokens.is_object())
    Fail("{}: expected a list of tokens, got {}", where, tokens.type_name());
  for (const Json& token : tokens) {
    const AddedToken added = ReadNamedToken(token, where);
    if (std::find(settings.further.begin(), settings.further.end(), added.content) == settings.further.end()) {
      settings.further.push_back(added.content);
      Name(added, settings);
    }
  }
}

// The five, those of begin and end, and what newer models have of their own: every other key that ends in _token.
void ReadNamedTokens(const Json& json, const std::string& path, TokenizerSettings& settings) {
  const auto read = [&](const char* key, const Json& value) {
    const AddedToken token = ReadNamedToken(value, fmt::format("{}: \"{}\"", path, key));
    Name(token, settings);
    return token.content;
  };
  for (const NamedToken& named : kNamedTokens)
    if (HasValue(json, named.key)) {
      settings.*named.token = read(named.key, json[named.key]);
      settings.named_in[named.key] = path;
    }
  for (const NamedToken& named : kEnds)
    if (HasValue(json, named.key)) settings.*named.token = read(named.key, json[named.key]);
  for (const auto& [key, value] : json.items()) {
    const bool known = key == "bos_token" || key == "eos_token" ||
                       std::any_of(std::begin(kNamedTokens), std::end(kNamedTokens),
                                   [&key = key](const NamedToken& named) { return key == named.key; });
    if (!known && key.ends_with("_token") && value.is_string()) settings.further.push_back(read(key.c_str(), value));
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
    if (HasValue(json, key)) ReadFurtherTokens(json[key], fmt::format("{}: \"{}\"", path, key), settings);
}

bool IsLeft(const Json& config, const std::string& path) {
  if (!HasValue(config, "truncation_side")) return false;
  const std::string side = GetString(config, "truncation_side", path);
  if (side != "left" && side != "right")
    Fail("{}: \"truncation_side\": expected left or right, got \"{}\"", path, Shown(side));
  return side == "left";
}

// Where transformers knows none it writes 10^30.
int64_t MaxLength(const Json& config) {
  if (!HasValue(config, "model_max_length") || !config["model_max_length"].is_number()) return 0;
  const double length = config["model_max_length"].get<double>();
  return length >= 1 && length <= INT32_MAX ? static_cast<int64_t>(length) : 0;
}

}  // namespace

void TokenizerSettings::UseRobertaNames() {
  unk = "<unk>";
  pad = "<pad>";
  mask = "<mask>";
  cls = bos = "<s>";
  sep = eos = "</s>";
}

bool TokenizerSettings::IsMadeOfSettings() const {
  return tokenizer_class == TokenizerClass::kBert || tokenizer_class == TokenizerClass::kAlbert ||
         tokenizer_class == TokenizerClass::kRoberta || tokenizer_class == TokenizerClass::kXlmRoberta;
}

bool IsTokenizerFile(std::string_view name) {
  return std::find(std::begin(kAllFiles), std::end(kAllFiles), name) != std::end(kAllFiles);
}

std::string InFolder(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

Json ReadTokenizerSettings(const std::string& folder, TokenizerSettings& settings) {
  const std::string path = InFolder(folder, kTokenizerConfigFile), map = InFolder(folder, kSpecialTokensFile),
                    added = InFolder(folder, kAddedTokensFile);
  const Json config = std::filesystem::exists(path) ? ReadJsonObject(path) : Json::object();
  settings.tokenizer_class = ReadTokenizerClass(folder, config);
  settings.adds_unsaid = settings.tokenizer_class != TokenizerClass::kGeneric;
  if (settings.tokenizer_class == TokenizerClass::kRoberta || settings.tokenizer_class == TokenizerClass::kXlmRoberta)
    settings.UseRobertaNames();
  settings.clean_up_spaces = GetBoolOr(config, "clean_up_tokenization_spaces", path, false);
  settings.model_max_length = MaxLength(config);
  settings.truncates_left = IsLeft(config, path);
  settings.lists_added = HasValue(config, "added_tokens_decoder");
  const bool has_map = std::filesystem::exists(map);
  if (has_map && settings.lists_added) {
    // transformers does not look at it then; names that the config leaves out are no harm.
    const std::string bos = settings.bos, eos = settings.eos;
    ReadNamedTokens(ReadJsonObject(map), map, settings);
    settings.bos = bos;
    settings.eos = eos;
    settings.further.clear();
    settings.named_in.clear();
  }
  ReadNamedTokens(config, path, settings);
  if (has_map && !settings.lists_added) ReadNamedTokens(ReadJsonObject(map), map, settings);
  if (settings.lists_added) {
    ReadDecoder(config, path, settings);
  } else if (std::filesystem::exists(added)) {
    ReadAddedTokensFile(added, settings);
  }
  SortById(settings.added);
  return config;
}

void MergeAddedTokens(const std::vector<AddedToken>& tokens, TokenizerSettings& settings) {
  if (settings.lists_added && settings.IsMadeOfSettings()) return;
  for (const AddedToken& token : tokens) {
    const auto same = std::find_if(settings.added.begin(), settings.added.end(),
                                   [&](const AddedToken& other) { return other.content == token.content; });
    if (same == settings.added.end()) {
      settings.added.push_back(token);
    } else if (!settings.lists_added) {
      *same = token;
    }
  }
  SortById(settings.added);
}

Json TokenizerConfigJson(const TokenizerSettings& settings, const std::vector<AddedToken>& tokens) {
  Json decoder = Json::object();
  for (const AddedToken& token : tokens) {
    decoder[std::to_string(token.id)] = {{"content", token.content},         {"lstrip", token.lstrip},
                                         {"normalized", token.normalized},   {"rstrip", token.rstrip},
                                         {"single_word", token.single_word}, {"special", token.special}};
  }
  Json config = {{"added_tokens_decoder", decoder}, {"clean_up_tokenization_spaces", settings.clean_up_spaces}};
  for (const std::span<const NamedToken> group :
       {std::span<const NamedToken>(kNamedTokens), std::span<const NamedToken>(kEnds)})
    for (const NamedToken& named : group)
      if (!(settings.*named.token).empty()) config[named.key] = settings.*named.token;
  if (!settings.further.empty()) config["extra_special_tokens"] = settings.further;
  if (settings.truncates_left) config["truncation_side"] = "left";
  return config;
}

namespace {

// special_tokens_map.json, whose tokens are objects where they have flags: it goes over tokenizer_config.json.
Json SpecialTokensJson(const TokenizerSettings& settings) {
  Json special = Json::object();
  for (const NamedToken& named : kNamedTokens) {
    const std::string& content = settings.*named.token;
    if (content.empty()) continue;
    const auto said = std::find_if(settings.named.begin(), settings.named.end(),
                                   [&](const AddedToken& token) { return token.content == content; });
    Json& value = special[named.key] = content;
    if (said == settings.named.end() || *said == AddedToken{.content = content}) continue;
    value = {{"content", content},
             {"lstrip", said->lstrip},
             {"normalized", said->normalized},
             {"rstrip", said->rstrip},
             {"single_word", said->single_word}};
  }
  return special;
}

}  // namespace

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
