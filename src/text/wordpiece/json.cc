// A tokenizer.json whose model is WordPiece.
#include "base/json.h"

#include <string>

#include "base/error.h"
#include "text/tokenizer_json.h"
#include "text/wordpiece/wordpiece.h"

namespace lshformer {
namespace {

// As transformers does it, BertTokenizer's settings with their defaults go over the file, whatever it says.
void ReadNormalizer(const Json& json, const std::string& path, const Json& config, WordPieceOptions& options) {
  const bool said = HasValue(config, "do_lower_case") || HasValue(config, "strip_accents") ||
                    HasValue(config, "tokenize_chinese_chars");
  const bool settings_count =
      options.tokenizer_class == TokenizerClass::kBert || (options.tokenizer_class == TokenizerClass::kUnsaid && said);
  // Sentence-Transformers puts a step for lower case before it, which such settings undo.
  if (settings_count && GetString(JsonObjectIn(json, "normalizer", path), "type", path) == "Sequence") return;
  const Json& part = JsonPart(json, "normalizer", "BertNormalizer", path);
  if (!GetBoolOr(part, "clean_text", path, true)) Fail("{}: \"clean_text\": expected true, got false", path);
  if (settings_count) return;
  NormalizerOptions& normalizer = options.normalizer;
  normalizer.lowercase = GetBool(part, "lowercase", path);
  normalizer.strip_accents = GetBoolOr(part, "strip_accents", path, normalizer.lowercase);
  normalizer.ideographs = GetBoolOr(part, "handle_chinese_chars", path, true);
}

void ReadWordPieceDecoder(const Json& json, const std::string& path, WordPieceOptions& options) {
  if (!HasValue(json, "decoder")) return;
  const Json& decoder = JsonPart(json, "decoder", "WordPiece", path);
  if (HasValue(decoder, "prefix") && decoder["prefix"] != "##")
    Fail("{}: \"decoder\": expected the prefix \"##\", got {}", path, ShownValue(decoder["prefix"]));
  options.cleans_tokens = GetBoolOr(decoder, "cleanup", path, true);
}

}  // namespace

Vocabulary ReadWordPieceJson(const Json& json, const std::string& path, const Json& config, WordPieceOptions& options) {
  CheckJsonClass(options, {TokenizerClass::kBert}, "WordPiece", path);
  const Json& model = json["model"];
  ReadNormalizer(json, path, config, options);
  JsonPart(json, "pre_tokenizer", "BertPreTokenizer", path);
  ReadWordPieceDecoder(json, path, options);
  Vocabulary vocabulary = ReadVocabulary(JsonObjectIn(model, "vocab", path), path);
  if (const std::string prefix = GetString(model, "continuing_subword_prefix", path); prefix != "##")
    Fail("{}: \"continuing_subword_prefix\": expected \"##\", got \"{}\"", path, Shown(prefix));
  GetInt(model, "max_input_chars_per_word", path, kMaxWordCharacters, kMaxWordCharacters);
  UseUnknownToken(GetString(model, "unk_token", path), vocabulary, options);
  ReadJsonCommon(json, vocabulary, path, config, options);
  return vocabulary;
}

}  // namespace lshformer
