#include "text/tokenizer_json.h"

#include "base/error.h"
#include "base/json.h"

namespace lshformer {
namespace {

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
void ReadPostProcessor(const Json& json, const Json& vocab, const std::string& path, WordPieceOptions& options) {
  const Json processor = json.contains("post_processor") ? json["post_processor"] : Json();
  const std::string type = HasValue(processor, "type") ? GetString(processor, "type", path) : "none";
  std::string &cls = options.cls, &sep = options.sep;
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

// A part of the file, of the only type that is BERT's.
const Json& Part(const Json& json, const char* key, const char* type, const std::string& path) {
  if (!json.contains(key) || !json[key].is_object()) Fail("{}: expected an object \"{}\"", path, key);
  const Json& part = json[key];
  // Files of early releases do not name the model; only BPE has merges, and only WordPiece a prefix beside none.
  const bool early = std::string_view(key) == "model" && !part.contains("type") &&
                     part.contains("continuing_subword_prefix") && !part.contains("merges");
  const std::string got = early ? "WordPiece" : GetString(part, "type", path);
  if (got != type) Fail("{}: \"{}\": expected the type {}, got \"{}\"", path, key, type, Shown(got));
  return part;
}

void ReadNormalizer(const Json& part, const std::string& path, NormalizerOptions& normalizer) {
  normalizer.lowercase = GetBool(part, "lowercase", path);
  normalizer.strip_accents = GetBoolOr(part, "strip_accents", path, normalizer.lowercase);
  normalizer.ideographs = GetBoolOr(part, "handle_chinese_chars", path, true);
  if (!GetBoolOr(part, "clean_text", path, true)) Fail("{}: \"clean_text\": expected true, got false", path);
}

}  // namespace

std::string ReadTokenizerJson(const std::string& path, WordPieceOptions& options) {
  const Json json = ReadJsonObject(path);
  const Json& model = Part(json, "model", "WordPiece", path);
  ReadNormalizer(Part(json, "normalizer", "BertNormalizer", path), path, options.normalizer);
  Part(json, "pre_tokenizer", "BertPreTokenizer", path);
  if (!model.contains("vocab") || !model["vocab"].is_object()) Fail("{}: expected an object \"vocab\"", path);
  if (const std::string prefix = GetString(model, "continuing_subword_prefix", path); prefix != "##")
    Fail("{}: \"continuing_subword_prefix\": expected \"##\", got \"{}\"", path, Shown(prefix));
  GetInt(model, "max_input_chars_per_word", path, kMaxWordCharacters, kMaxWordCharacters);
  options.unk = GetString(model, "unk_token", path);
  ReadPostProcessor(json, model["vocab"], path, options);
  options.added.clear();
  options.added_from = "\"added_tokens\"";
  if (HasValue(json, "added_tokens") && json["added_tokens"].is_array()) {
    for (const Json& token : json["added_tokens"]) {
      options.added.push_back(ReadAddedToken(token, path + ": \"added_tokens\""));
      options.added.back().id = static_cast<int32_t>(GetInt(token, "id", path, 0, INT32_MAX));
    }
  }
  return VocabularyText(model["vocab"], path);
}

}  // namespace lshformer
