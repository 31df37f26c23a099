// The folder of a tokenizer whose model is BPE: tokenizer.json, or vocab.json and merges.txt, and beside them HF's
// settings.
#include "base/files.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "text/bpe/bpe.h"
#include "text/tokenizer_json.h"

namespace lshformer {
namespace {

std::pair<std::string, std::string> PairIn(std::string_view line, const std::string& where) {
  const size_t space = line.find(' ');
  const bool good = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                    line.find(' ', space + 1) == std::string_view::npos;
  if (!good) Fail("{}: expected two tokens with a space between them, got \"{}\"", where, Shown(line, 60));
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

// "a b", or ["a", "b"] as newer releases write them.
TokenPairs ReadJsonMerges(const Json& merges, const std::string& path) {
  if (!merges.is_array()) Fail("{}: \"merges\": expected a list, got {}", path, merges.type_name());
  TokenPairs pairs;
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    const std::string where = fmt::format("{}: merge {}", path, i + 1);
    if (merge.is_string()) {
      if (merge.get_ref<const std::string&>().starts_with("#version")) continue;
      pairs.push_back(PairIn(merge.get_ref<const std::string&>(), where));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      pairs.emplace_back(merge[0], merge[1]);
    } else {
      Fail("{}: expected two tokens, got {}", where, ShownValue(merge));
    }
  }
  return pairs;
}

// merges.txt: a pair a line; lines that begin with #version are none.
TokenPairs ReadMergesFile(std::string_view contents, const std::string& path) {
  TokenPairs pairs;
  for (size_t at = 0, line_number = 1; at < contents.size(); ++line_number) {
    const size_t end = std::min(contents.find('\n', at), contents.size());
    std::string_view line = contents.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version")) continue;
    const std::string where = fmt::format("{}:{}", path, line_number);
    if (!IsValidUtf8(line)) Fail("{}: expected UTF-8, got \"{}\"", where, Shown(line, 60));
    pairs.push_back(PairIn(line, where));
  }
  return pairs;
}

BpeOptions ReadModel(const Json& model, const Vocabulary& vocabulary, const std::string& path) {
  const std::string where = path + ": \"model\"";
  if (HasValue(model, "dropout") && model["dropout"] != 0)
    Fail("{}: \"dropout\": expected null, got {}: a text would have other tokens each time", where,
         ShownValue(model["dropout"]));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (HasValue(model, key) && model[key] != "")
      Fail("{}: \"{}\": expected none, got {}", where, key, ShownValue(model[key]));
  BpeOptions options;
  options.byte_fallback = GetBoolOr(model, "byte_fallback", where, false);
  options.fuse_unk = GetBoolOr(model, "fuse_unk", where, false);
  options.ignore_merges = GetBoolOr(model, "ignore_merges", where, false);
  if (!HasValue(model, "unk_token")) return options;
  const std::string unk = GetString(model, "unk_token", where);
  options.unk_id = vocabulary.Id(unk);
  if (options.unk_id < 0) Fail("{}: the unknown token \"{}\" is not in the vocabulary", where, Shown(unk, 60));
  return options;
}

// RobertaTokenizer makes all but the vocabulary and the merges of its settings.
void UseRobertaParts(const Json& config, const std::string& config_path, BpeTokenizerOptions& options) {
  const bool adds_space = GetBoolOr(config, "add_prefix_space", config_path, false);
  options.words = WordSplitter::ByteLevel(adds_space);
  options.decoder = TokenDecoder::ByteLevel();
  options.trims_places = GetBoolOr(config, "trim_offsets", config_path, true);
  options.keeps_first_space = adds_space;
}

// Names that no file says: <s> and its kin where the vocabulary has those.
void GuessNames(const Vocabulary& vocabulary, TokenizerSettings& settings) {
  TokenizerSettings other;
  other.UseRobertaNames();
  for (std::string TokenizerSettings::*name :
       {&TokenizerSettings::unk, &TokenizerSettings::sep, &TokenizerSettings::pad, &TokenizerSettings::cls,
        &TokenizerSettings::mask}) {
    const bool said = settings.*name != TokenizerSettings().*name;
    if (!said && vocabulary.Id(settings.*name) < 0 && vocabulary.Id(other.*name) >= 0) settings.*name = other.*name;
  }
}

}  // namespace

BpeParts ReadBpeJson(const Json& json, const std::string& path, const Json& config, BpeTokenizerOptions& options) {
  CheckJsonClass(options, {TokenizerClass::kRoberta}, "BPE", path);
  const Json& model = json["model"];
  BpeParts parts{ReadVocabulary(JsonObjectIn(model, "vocab", path), path),
                 ReadJsonMerges(JsonPartOrNull(model, "merges"), path)};
  const BpeOptions read = ReadModel(model, parts.vocabulary, path);
  if (options.tokenizer_class == TokenizerClass::kRoberta) {
    UseRobertaParts(config, (std::filesystem::path(path).parent_path() / kTokenizerConfigFile).string(), options);
    ReadJsonCommon(json, parts.vocabulary, path, config, options);
  } else {
    options.adds_unsaid = false;
    options.model = read;
    options.normalizer = TextNormalizer(JsonPartOrNull(json, "normalizer"), path);
    options.words = WordSplitter(JsonPartOrNull(json, "pre_tokenizer"), path);
    options.decoder = TokenDecoder(JsonPartOrNull(json, "decoder"), path);
    GuessNames(parts.vocabulary, options);
    const PostProcessor processor = ReadJsonCommon(json, parts.vocabulary, path, config, options);
    options.trims_places = processor.trims_places;
    options.keeps_first_space = processor.keeps_first_space;
  }
  options.model.byte_level = options.words.byte_level();
  if (options.model.byte_level && options.model.byte_fallback)
    Fail("{}: \"byte_fallback\" with a ByteLevel pre-tokenizer is not supported", path);
  return parts;
}

void BpeTokenizer::Save(const std::string& folder, int64_t max_length) const {
  Json config = TokenizerConfigJson(options_, added_.tokens());
  const bool roberta = options_.tokenizer_class == TokenizerClass::kRoberta || !files_.contains(kTokenizerJsonFile);
  config["tokenizer_class"] = roberta ? "RobertaTokenizer" : "PreTrainedTokenizerFast";
  if (roberta) {
    config["add_prefix_space"] = options_.words.adds_space();
    config["trim_offsets"] = options_.trims_places;
  }
  SaveTokenizerFiles(folder, files_, options_, config, max_length);
}

std::shared_ptr<const Tokenizer> LoadBpe(const std::string& folder, const Json& json) {
  BpeTokenizerOptions options;
  const bool has_json = !json.is_null();
  if (!has_json) options.UseRobertaNames();
  const Json config = ReadTokenizerSettings(folder, options);
  TokenizerFiles files = ReadTokenizerFiles(folder);
  const std::string path = InFolder(folder, has_json ? kTokenizerJsonFile : kBpeVocabularyFile);
  if (has_json) {
    BpeParts parts = ReadBpeJson(json, path, config, options);
    return std::make_shared<BpeTokenizer>(std::move(parts.vocabulary), parts.merges, path, std::move(options),
                                          std::move(files));
  }
  if (options.tokenizer_class != TokenizerClass::kRoberta && options.tokenizer_class != TokenizerClass::kUnsaid)
    Fail("{}: vocab.json is RobertaTokenizer's, the folder's \"tokenizer_class\" is another", Shown(folder));
  const std::string merges_path = InFolder(folder, kMergesFile);
  if (!files.contains(kMergesFile)) Fail("{}: no merges.txt beside vocab.json", Shown(folder));
  UseRobertaParts(config, InFolder(folder, kTokenizerConfigFile), options);
  options.model.byte_level = true;
  Vocabulary vocabulary = ReadVocabulary(ReadJsonObject(path), path);
  const TokenPairs merges = ReadMergesFile(files[kMergesFile], merges_path);
  return std::make_shared<BpeTokenizer>(std::move(vocabulary), merges, merges_path, std::move(options),
                                        std::move(files));
}

}  // namespace lshformer
