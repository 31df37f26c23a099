#include "text/tokenizer_json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lshformer {
namespace {

void CheckJsonId(const Json& id, const char* key, const std::string& token, const std::string& path) {
  if (!id.is_number_unsigned() || id >= Vocabulary::kMaxTokens)
    Fail("{}: \"{}\": expected an id from 0 to {} for \"{}\", got {}", path, key, Vocabulary::kMaxTokens - 1,
         Shown(token), ShownValue(id));
}

// `named`: by which key, and in which file.
void RequireNamed(const std::string& token, const std::pair<const std::string, std::string>& named,
                  const Vocabulary& vocabulary) {
  if (vocabulary.Id(token) >= 0) return;
  Fail("{}: \"{}\": \"{}\" is not in the vocabulary of tokenizer.json, which has another token there", named.second,
       named.first, Shown(token, 40));
}

}  // namespace

JsonModel ModelOf(const Json& json, const std::string& path) {
  const Json& model = JsonObjectIn(json, "model", path);
  if (!model.contains("type") && !model.contains("merges")) {
    // Files of early releases do not name the model; only BPE has merges.
    if (model.contains("continuing_subword_prefix")) return JsonModel::kWordPiece;
    if (model.contains("unk_id")) return JsonModel::kUnigram;
  }
  if (!model.contains("type") && model.contains("merges")) return JsonModel::kBpe;
  const std::string type = GetString(model, "type", path);
  if (type == "WordPiece") return JsonModel::kWordPiece;
  if (type == "Unigram") return JsonModel::kUnigram;
  if (type == "BPE") return JsonModel::kBpe;
  Fail("{}: \"model\": expected the type WordPiece, Unigram or BPE, got \"{}\"", path, Shown(type));
}

// {"token": id, …}
Vocabulary ReadVocabulary(const Json& vocab, const std::string& where) {
  Vocabulary vocabulary;
  for (const auto& [token, id] : vocab.items()) {
    CheckJsonId(id, "vocab", token, where);
    const auto number = id.get<int32_t>();
    if (vocabulary.Has(number))
      Fail("{}: \"vocab\": \"{}\" and \"{}\" have the same id {}", where, Shown(vocabulary.Token(number), 40),
           Shown(token, 40), number);
    vocabulary.Set(token, number);
  }
  return vocabulary;
}

const Json& JsonObjectIn(const Json& json, const char* key, const std::string& path) {
  if (!json.contains(key) || !json[key].is_object()) Fail("{}: expected an object \"{}\"", path, key);
  return json[key];
}

const Json& JsonPart(const Json& json, const char* key, const char* type, const std::string& path) {
  const Json& part = JsonObjectIn(json, key, path);
  if (const std::string got = GetString(part, "type", path); got != type)
    Fail("{}: \"{}\": expected the type {}, got \"{}\"", path, key, type, Shown(got));
  return part;
}

Json JsonPartOrNull(const Json& json, const char* key) { return json.contains(key) ? json[key] : Json(); }

void CheckJsonClass(const TokenizerSettings& settings, std::initializer_list<TokenizerClass> expected,
                    const char* model, const std::string& path) {
  const TokenizerClass got = settings.tokenizer_class;
  const bool good = std::find(expected.begin(), expected.end(), got) != expected.end();
  if (!good && got != TokenizerClass::kGeneric && got != TokenizerClass::kUnsaid)
    Fail("{}: the model is {}, which is not that of the folder's \"tokenizer_class\"", path, model);
}

void UseUnknownToken(const std::string& of_model, const Vocabulary& vocabulary, TokenizerSettings& settings) {
  const auto named = settings.named_in.find("unk_token");
  if (named != settings.named_in.end() && settings.unk != of_model) {
    if (settings.tokenizer_class == TokenizerClass::kBert) return RequireNamed(settings.unk, *named, vocabulary);
    settings.other_unk = settings.unk;
  }
  settings.unk = of_model;
}

PostProcessor ReadJsonCommon(const Json& json, const Vocabulary& vocabulary, const std::string& path,
                             const Json& config, TokenizerSettings& settings) {
  std::vector<AddedToken> tokens;
  settings.added_from = "\"added_tokens\"";
  if (HasValue(json, "added_tokens") && json["added_tokens"].is_array()) {
    for (const Json& token : json["added_tokens"]) {
      tokens.push_back(ReadAddedToken(token, path + ": \"added_tokens\"", /*special=*/false));
      CheckJsonId(token.is_object() && token.contains("id") ? token["id"] : Json(), "added_tokens",
                  tokens.back().content, path);
      tokens.back().id = token["id"].get<int32_t>();
    }
  }
  MergeAddedTokens(tokens, settings);
  const auto id_of = [&](const std::string& token) {
    if (const int32_t id = vocabulary.Id(token); id >= 0) return id;
    for (const AddedToken& added : settings.added)
      if (added.content == token) return added.id;
    return -1;
  };
  if (!HasValue(config, "truncation_side") && json.contains("truncation") && json["truncation"].is_object() &&
      json["truncation"].contains("direction"))
    settings.truncates_left = json["truncation"]["direction"] == "Left";
  const TokenizerClass said = settings.tokenizer_class;
  if (said == TokenizerClass::kRoberta || said == TokenizerClass::kXlmRoberta) return {};
  const Json processor = JsonPartOrNull(json, "post_processor");
  const PostProcessor read = ReadPostProcessor(processor, path, id_of);
  const bool of_bert = said == TokenizerClass::kBert || said == TokenizerClass::kAlbert;
  if (of_bert && processor.is_null()) return {};
  if (of_bert &&
      (read.cls.empty() || read.sep.empty() || read.around != TextTemplate::Bert(id_of(read.cls), id_of(read.sep))))
    Fail("{}: \"post_processor\": expected one that makes [CLS] A [SEP] B [SEP], as the \"tokenizer_class\" does",
         path);
  settings.around = read.around;
  const auto use = [&](const char* key, const std::string& token, std::string& name) {
    const auto named = settings.named_in.find(key);
    if (named == settings.named_in.end()) {
      if (!token.empty()) name = token;
    } else if (token != name) {
      if (said == TokenizerClass::kAlbert) RequireNamed(name, *named, vocabulary);
      if (said == TokenizerClass::kBert) settings.around.reset();
    }
  };
  use("cls_token", read.cls, settings.cls);
  use("sep_token", read.sep, settings.sep);
  return read;
}

}  // namespace lshformer
