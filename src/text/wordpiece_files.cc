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

// tokenizer.json, where HF's library keeps everything: newer releases write it without a vocab.txt beside it.
struct TokenizerJson {
  std::string vocab_txt;
  std::vector<AddedToken> added;
  NormalizerOptions normalizer;
  std::string unk, cls, sep;
};

// The tokens of {"token": id, …} in order of their ids, as vocab.txt has them.
std::string VocabularyText(const Json& vocab, const std::string& where) {
  std::vector<const std::string*> tokens(vocab.size(), nullptr);
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id >= tokens.size() || tokens[id.get<size_t>()] != nullptr) {
      Fail("{}: \"vocab\": expected the ids 0 to {}, each once, got {} for \"{}\"", where, tokens.size() - 1,
           ShownValue(id), Shown(token));
    }
    if (token.find_first_of("\r\n") != std::string::npos) {
      Fail("{}: \"vocab\": expected tokens of one line, got \"{}\"", where, Shown(token));
    }
    tokens[id.get<size_t>()] = &token;
  }
  std::string text;
  for (const std::string* token : tokens) text.append(*token).append("\n");
  return text;
}

Json SpecialPiece(const std::string& token, int segment) {
  return {{"SpecialToken", {{"id", token}, {"type_id", segment}}}};
}
Json TextPiece(const char* name, int segment) { return {{"Sequence", {{"id", name}, {"type_id", segment}}}}; }

bool Same(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }  // in any order of keys

// The token that a piece of a template names; "" where it names none.
std::string NameIn(const Json& pieces, size_t index) {
  const auto pointer = Json::json_pointer(fmt::format("/{}/SpecialToken/id", index));
  return pieces.is_array() && pieces.contains(pointer) && pieces[pointer].is_string() ? pieces[pointer] : Json("");
}

// What a template's "special_tokens" say of the token's ids; null where they say nothing.
Json IdsOf(const Json& processor, const std::string& token) {
  Json found = processor;
  for (const char* key : {"special_tokens", token.c_str(), "ids"})
    found = found.is_object() && found.contains(key) ? Json(found[key]) : Json();
  return found;
}

// Which tokens stand around texts. What makes anything but [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with segments 0 and
// 1, or gives these tokens other ids than the vocabulary, is not BERT's.
void ReadPostProcessor(const Json& json, const Json& vocab, const std::string& path, TokenizerJson& into) {
  const Json processor = json.contains("post_processor") ? json["post_processor"] : Json();
  const std::string type = HasValue(processor, "type") ? GetString(processor, "type", path) : "none";
  std::string &cls = into.cls, &sep = into.sep;
  bool good = false;
  const auto id_of = [&](const std::string& token) { return vocab.contains(token) ? vocab[token] : Json(); };
  if (type == "TemplateProcessing" && processor.contains("single") && processor.contains("pair")) {
    const Json& single = processor["single"];
    cls = NameIn(single, 0), sep = NameIn(single, 2);
    Json wanted = Json::array({SpecialPiece(cls, 0), TextPiece("A", 0), SpecialPiece(sep, 0)});
    good = Same(single, wanted);
    wanted.push_back(TextPiece("B", 1));
    wanted.push_back(SpecialPiece(sep, 1));
    good = good && Same(processor["pair"], wanted);
    for (const std::string& token : {cls, sep})
      good = good && Same(IdsOf(processor, token), Json::array({id_of(token)}));
  } else if (type == "BertProcessing" && processor.contains("cls") && processor.contains("sep")) {
    const auto read = [&](const Json& pair, std::string& token) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) return false;
      token = pair[0];
      return Same(pair[1], id_of(token));
    };
    good = read(processor["cls"], cls) && read(processor["sep"], sep);
  }
  if (!good || cls.empty() || sep.empty()) {
    Fail("{}: \"post_processor\" ({}): expected BertProcessing or TemplateProcessing that makes [CLS] A [SEP] B [SEP]",
         path, Shown(type, 40));
  }
}

TokenizerJson ReadTokenizerJson(const std::string& path) {
  const Json json = ReadObject(path);
  const auto part = [&](const char* key, const char* type) -> const Json& {
    if (!json.contains(key) || !json[key].is_object()) Fail("{}: expected an object \"{}\"", path, key);
    // Files of early releases do not name the model; only BPE has merges, and only WordPiece a prefix beside none.
    const bool early = std::string_view(key) == "model" && !json[key].contains("type") &&
                       json[key].contains("continuing_subword_prefix") && !json[key].contains("merges");
    const std::string got = early ? "WordPiece" : GetString(json[key], "type", path);
    if (got != type) Fail("{}: \"{}\": expected the type {}, got \"{}\"", path, key, type, Shown(got));
    return json[key];
  };
  TokenizerJson result;
  const Json &model = part("model", "WordPiece"), &normalizer = part("normalizer", "BertNormalizer");
  part("pre_tokenizer", "BertPreTokenizer");
  if (!model.contains("vocab") || !model["vocab"].is_object()) Fail("{}: expected an object \"vocab\"", path);
  if (GetString(model, "continuing_subword_prefix", path) != "##" ||
      GetInt(model, "max_input_chars_per_word", path) != kMaxWordCharacters) {
    Fail("{}: expected the prefix \"##\" and words of up to {} characters", path, kMaxWordCharacters);
  }
  result.vocab_txt = VocabularyText(model["vocab"], path);
  result.unk = GetString(model, "unk_token", path);
  ReadPostProcessor(json, model["vocab"], path, result);
  result.normalizer.lowercase = GetBool(normalizer, "lowercase", path);
  result.normalizer.strip_accents = BoolOr(normalizer, "strip_accents", path, result.normalizer.lowercase);
  result.normalizer.ideographs = BoolOr(normalizer, "handle_chinese_chars", path, true);
  if (!BoolOr(normalizer, "clean_text", path, true)) Fail("{}: \"clean_text\": expected true, got false", path);
  if (HasValue(json, "added_tokens") && json["added_tokens"].is_array()) {
    for (const Json& token : json["added_tokens"]) {
      result.added.push_back(ReadToken(token, path + ": \"added_tokens\""));
      const AddedToken& added = result.added.back();
      result.added.back().id = static_cast<int32_t>(GetInt(token, "id", path, 0, INT32_MAX));
      const Json& vocab = model["vocab"];
      if (vocab.contains(added.content) && vocab[added.content] != added.id) {
        Fail("{}: token \"{}\" has id {} in \"vocab\", but {} in \"added_tokens\"", path, Shown(added.content),
             ShownValue(vocab[added.content]), added.id);
      }
    }
  }
  return result;
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
  TokenizerJson whole = ReadTokenizerJson(json);
  options.normalizer = whole.normalizer;
  options.added = std::move(whole.added);
  options.unk = whole.unk, options.cls = whole.cls, options.sep = whole.sep;
  return std::make_shared<WordPieceTokenizer>(whole.vocab_txt, json, options);
}

}  // namespace lshformer
