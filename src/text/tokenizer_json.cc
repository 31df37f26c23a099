#include "text/tokenizer_json.h"

#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace lshformer {
namespace {

void CheckJsonId(const Json& id, const char* key, const std::string& token, const std::string& path) {
  if (!id.is_number_unsigned() || id >= Vocabulary::kMaxTokens)
    Fail("{}: \"{}\": expected an id from 0 to {} for \"{}\", got {}", path, key, Vocabulary::kMaxTokens - 1,
         Shown(token), ShownValue(id));
}

// {"token": id, …}
Vocabulary ReadVocabulary(const Json& vocab, const std::string& path) {
  Vocabulary vocabulary;
  for (const auto& [token, id] : vocab.items()) {
    CheckJsonId(id, "vocab", token, path);
    const auto number = id.get<int32_t>();
    if (vocabulary.Has(number))
      Fail("{}: \"vocab\": \"{}\" and \"{}\" have the same id {}", path, Shown(vocabulary.Token(number), 40),
           Shown(token, 40), number);
    vocabulary.Set(token, number);
  }
  return vocabulary;
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
template <class IdOf>
void ReadPostProcessor(const Json& json, const IdOf& id_of, const std::string& path, TokenizerSettings& settings) {
  const Json processor = json.contains("post_processor") ? json["post_processor"] : Json();
  const std::string type = HasValue(processor, "type") ? GetString(processor, "type", path) : "none";
  std::string &cls = settings.cls, &sep = settings.sep;
  bool good = false;
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

const Json& ObjectIn(const Json& json, const char* key, const std::string& path) {
  if (!json.contains(key) || !json[key].is_object()) Fail("{}: expected an object \"{}\"", path, key);
  return json[key];
}

// A part of the file, of the only type that goes with the model.
const Json& Part(const Json& json, const char* key, const char* type, const std::string& path) {
  const Json& part = ObjectIn(json, key, path);
  if (const std::string got = GetString(part, "type", path); got != type)
    Fail("{}: \"{}\": expected the type {}, got \"{}\"", path, key, type, Shown(got));
  return part;
}

// What is not BERT's tokenizer_class under a WordPiece model, or ALBERT's under a Unigram one, would be read otherwise.
void CheckClass(const TokenizerSettings& settings, TokenizerClass expected, const char* model,
                const std::string& path) {
  const TokenizerClass got = settings.tokenizer_class;
  if (got != expected && got != TokenizerClass::kGeneric && got != TokenizerClass::kUnsaid)
    Fail("{}: the model is {}, which is not that of the folder's \"tokenizer_class\"", path, model);
}

// What models have in common: added tokens, what stands around texts, the side that is cut.
void ReadCommon(const Json& json, const Vocabulary& vocabulary, const std::string& path, const Json& config,
                TokenizerSettings& settings) {
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
    if (const int32_t id = vocabulary.Id(token); id >= 0) return Json(id);
    for (const AddedToken& added : settings.added)
      if (added.content == token) return Json(added.id);
    return Json();
  };
  ReadPostProcessor(json, id_of, path, settings);
  if (!HasValue(config, "truncation_side") && json.contains("truncation") && json["truncation"].is_object() &&
      json["truncation"].contains("direction"))
    settings.truncates_left = json["truncation"]["direction"] == "Left";
}

// ---- WordPiece

// As transformers does it, BertTokenizer's settings with their defaults go over the file, whatever it says.
void ReadNormalizer(const Json& json, const std::string& path, const Json& config, WordPieceOptions& options) {
  const Json& part = Part(json, "normalizer", "BertNormalizer", path);
  if (!GetBoolOr(part, "clean_text", path, true)) Fail("{}: \"clean_text\": expected true, got false", path);
  const bool said = HasValue(config, "do_lower_case") || HasValue(config, "strip_accents") ||
                    HasValue(config, "tokenize_chinese_chars");
  const bool settings_count =
      options.tokenizer_class == TokenizerClass::kBert || (options.tokenizer_class == TokenizerClass::kUnsaid && said);
  if (settings_count) return;
  NormalizerOptions& normalizer = options.normalizer;
  normalizer.lowercase = GetBool(part, "lowercase", path);
  normalizer.strip_accents = GetBoolOr(part, "strip_accents", path, normalizer.lowercase);
  normalizer.ideographs = GetBoolOr(part, "handle_chinese_chars", path, true);
}

void ReadWordPieceDecoder(const Json& json, const std::string& path, WordPieceOptions& options) {
  if (!HasValue(json, "decoder")) return;
  const Json& decoder = Part(json, "decoder", "WordPiece", path);
  if (HasValue(decoder, "prefix") && decoder["prefix"] != "##")
    Fail("{}: \"decoder\": expected the prefix \"##\", got {}", path, ShownValue(decoder["prefix"]));
  options.cleans_tokens = GetBoolOr(decoder, "cleanup", path, true);
}

// ---- Unigram

UnigramModel ReadPieces(const Json& model, const std::string& path) {
  if (!model.contains("vocab") || !model["vocab"].is_array() || model["vocab"].empty())
    Fail("{}: expected a list \"vocab\" of pieces", path);
  const Json& vocab = model["vocab"];
  if (vocab.size() > static_cast<size_t>(Vocabulary::kMaxTokens))
    Fail("{}: \"vocab\": expected at most {} pieces, got {}", path, Vocabulary::kMaxTokens, vocab.size());
  std::deque<std::string> pieces;
  UnigramModel unigram;
  for (size_t id = 0; id < vocab.size(); ++id) {
    const Json& entry = vocab[id];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      Fail("{}: \"vocab\": entry {}: expected [piece, score], got {}", path, id, ShownValue(entry));
    pieces.push_back(entry[0]);
    unigram.scores.push_back(entry[1]);
    if (pieces.back().size() > UnigramModel::kMaxPieceBytes)
      Fail("{}: \"vocab\": piece {}: expected at most {} bytes, got {}", path, id, UnigramModel::kMaxPieceBytes,
           pieces.back().size());
  }
  unigram.unk_id =
      static_cast<int32_t>(GetInt(model, "unk_id", path + ": \"model\"", 0, static_cast<int64_t>(vocab.size()) - 1));
  if (GetBoolOr(model, "byte_fallback", path, false))
    Fail("{}: \"byte_fallback\": expected false, got true: pieces of single bytes are not supported", path);
  unigram.pieces = Vocabulary(std::move(pieces));
  return unigram;
}

Metaspace ReadMetaspace(const Json& part, const std::string& where) {
  if (!part.contains("replacement") || part["replacement"] != "\u2581")
    Fail("{}: Metaspace: expected the replacement \"\u2581\"", where);
  Metaspace metaspace;
  metaspace.splits = GetBoolOr(part, "split", where, true);
  if (HasValue(part, "prepend_scheme")) {
    const std::string scheme = GetString(part, "prepend_scheme", where);
    if (scheme != "always" && scheme != "first" && scheme != "never")
      Fail("{}: \"prepend_scheme\": expected always, first or never, got \"{}\"", where, Shown(scheme));
    metaspace.prepend = scheme == "always"  ? Metaspace::Prepend::kAlways
                        : scheme == "first" ? Metaspace::Prepend::kFirst
                                            : Metaspace::Prepend::kNever;
  } else if (!GetBoolOr(part, "add_prefix_space", where, true)) {
    Fail("{}: \"add_prefix_space\": expected true where there is no \"prepend_scheme\"", where);
  }
  return metaspace;
}

// WhitespaceSplit, Metaspace, or a Sequence of them in this order.
void ReadPreTokenizer(const Json& part, const std::string& where, UnigramOptions& options) {
  if (part.is_null()) return;
  if (!part.is_object()) Fail("{}: expected an object, got {}", where, part.type_name());
  const std::string type = GetString(part, "type", where);
  if (type == "Sequence") {
    if (!part.contains("pretokenizers") || !part["pretokenizers"].is_array() || part["pretokenizers"].size() > 2)
      Fail("{}: expected a list \"pretokenizers\" of WhitespaceSplit and Metaspace", where);
    for (const Json& step : part["pretokenizers"]) {
      if (step.is_object() && step.contains("type") && step["type"] == "Sequence")
        Fail("{}: a Sequence in a Sequence is not supported", where);
      ReadPreTokenizer(step, where, options);
    }
  } else if (type == "WhitespaceSplit" && !options.metaspace) {
    options.splits_at_spaces = true;
  } else if (type == "Metaspace" && !options.metaspace) {
    options.metaspace = ReadMetaspace(part, where);
  } else {
    Fail("{}: the type \"{}\" is not supported there, only WhitespaceSplit and then Metaspace are", where, Shown(type));
  }
}

void ReadUnigramDecoder(const Json& json, const std::string& path, UnigramOptions& options) {
  if (!HasValue(json, "decoder")) return;
  options.decoder = ReadMetaspace(Part(json, "decoder", "Metaspace", path), path + ": \"decoder\"");
}

// AlbertTokenizer makes all this from its settings, whatever the file says.
void ApplyAlbertSettings(const Json& config, const std::string& path, UnigramOptions& options) {
  if (HasValue(config, "do_lower_case")) options.normalizer.SetLowercase(GetBool(config, "do_lower_case", path));
  if (HasValue(config, "keep_accents")) options.normalizer.SetStripAccents(!GetBool(config, "keep_accents", path));
  if (!HasValue(config, "add_prefix_space")) return;
  const auto prepend =
      GetBool(config, "add_prefix_space", path) ? Metaspace::Prepend::kAlways : Metaspace::Prepend::kNever;
  for (std::optional<Metaspace>* metaspace : {&options.metaspace, &options.decoder})
    if (*metaspace) (*metaspace)->prepend = prepend;
}

}  // namespace

JsonModel ModelOf(const Json& json, const std::string& path) {
  const Json& model = ObjectIn(json, "model", path);
  if (!model.contains("type") && !model.contains("merges")) {
    // Files of early releases do not name the model; only BPE has merges.
    if (model.contains("continuing_subword_prefix")) return JsonModel::kWordPiece;
    if (model.contains("unk_id")) return JsonModel::kUnigram;
  }
  const std::string type = GetString(model, "type", path);
  if (type == "WordPiece") return JsonModel::kWordPiece;
  if (type == "Unigram") return JsonModel::kUnigram;
  Fail("{}: \"model\": expected the type WordPiece or Unigram, got \"{}\"", path, Shown(type));
}

Vocabulary ReadWordPieceJson(const Json& json, const std::string& path, const Json& config, WordPieceOptions& options) {
  CheckClass(options, TokenizerClass::kBert, "WordPiece", path);
  const Json& model = json["model"];
  ReadNormalizer(json, path, config, options);
  Part(json, "pre_tokenizer", "BertPreTokenizer", path);
  ReadWordPieceDecoder(json, path, options);
  Vocabulary vocabulary = ReadVocabulary(ObjectIn(model, "vocab", path), path);
  if (const std::string prefix = GetString(model, "continuing_subword_prefix", path); prefix != "##")
    Fail("{}: \"continuing_subword_prefix\": expected \"##\", got \"{}\"", path, Shown(prefix));
  GetInt(model, "max_input_chars_per_word", path, kMaxWordCharacters, kMaxWordCharacters);
  options.unk = GetString(model, "unk_token", path);
  ReadCommon(json, vocabulary, path, config, options);
  return vocabulary;
}

UnigramModel ReadUnigramJson(const Json& json, const std::string& path, const Json& config, UnigramOptions& options) {
  CheckClass(options, TokenizerClass::kAlbert, "Unigram", path);
  UnigramModel model = ReadPieces(json["model"], path);
  options.normalizer = TextNormalizer(json.contains("normalizer") ? json["normalizer"] : Json(), path);
  ReadPreTokenizer(json.contains("pre_tokenizer") ? json["pre_tokenizer"] : Json(), path + ": \"pre_tokenizer\"",
                   options);
  ReadUnigramDecoder(json, path, options);
  if (options.tokenizer_class == TokenizerClass::kAlbert) ApplyAlbertSettings(config, path, options);
  ReadCommon(json, model.pieces, path, config, options);
  return model;
}

}  // namespace lshformer
