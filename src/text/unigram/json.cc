// A tokenizer.json whose model is Unigram.
#include "base/json.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <string>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "text/sentence_piece/model.h"
#include "text/tokenizer_json.h"
#include "text/unigram/unigram.h"

namespace lshformer {
namespace {

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
  options.decoder = ReadMetaspace(JsonPart(json, "decoder", "Metaspace", path), path + ": \"decoder\"");
}

void UseMetaspace(const Json& config, const std::string& path, UnigramOptions& options) {
  options.splits_at_spaces = true;
  const bool adds_space = GetBoolOr(config, "add_prefix_space", path, true);
  options.metaspace = Metaspace{adds_space ? Metaspace::Prepend::kAlways : Metaspace::Prepend::kNever};
  options.decoder = options.metaspace;
}

// AlbertTokenizer and XLMRobertaTokenizer make all but the pieces and the table of characters of their settings.
void UseAlbertParts(const Json& config, const std::string& path, UnigramOptions& options) {
  options.normalizer.UseAlbertSteps(GetBoolOr(config, "do_lower_case", path, true),
                                    !GetBoolOr(config, "keep_accents", path, false));
  UseMetaspace(config, path, options);
}
void UseXlmRobertaParts(const Json& config, const std::string& path, UnigramOptions& options) {
  options.normalizer.KeepPrecompiled();
  UseMetaspace(config, path, options);
}

// A piece that is found whole in a text.
void AddPiece(const std::string& piece, bool special, TokenizerSettings& settings) {
  if (std::find(settings.further.begin(), settings.further.end(), piece) != settings.further.end()) return;
  settings.further.push_back(piece);
  const bool said = std::any_of(settings.named.begin(), settings.named.end(),
                                [&](const AddedToken& token) { return token.content == piece; });
  if (!said) settings.named.push_back({.content = piece, .special = special});
}

// XLM-R's ids, those of fairseq, of SentencePiece's pieces <unk>, <s>, </s>, a, …: <s>, <pad>, </s>, <unk>, a, …,
// <mask>.
UnigramModel ShiftedModel(SentencePieceModel model, const TokenizerSettings& names, const std::string& path) {
  constexpr size_t kReplaced = 3;
  for (size_t id = 0; id < std::min(kReplaced, model.pieces.size()); ++id)
    if (model.types[id] != PieceType::kControl && model.types[id] != PieceType::kUnknown)
      Fail("{}: piece {} is \"{}\", expected <unk>, <s> and </s> as the first three", path, id,
           Shown(model.pieces[id], 40));
  if (model.pieces.size() <= kReplaced) Fail("{}: expected more than {} pieces", path, kReplaced);
  UnigramModel unigram;
  std::deque<std::string> pieces{names.bos, names.pad, names.eos, names.unk};
  unigram.unk_id = static_cast<int32_t>(pieces.size()) - 1;
  unigram.scores.assign(pieces.size(), 0.0);
  for (size_t id = kReplaced; id < model.pieces.size(); ++id) {
    pieces.push_back(std::move(model.pieces[id]));
    unigram.scores.push_back(model.scores[id]);
  }
  pieces.push_back(names.mask);
  unigram.scores.push_back(0.0);
  unigram.pieces = Vocabulary(std::move(pieces));
  return unigram;
}

}  // namespace

UnigramModel ReadUnigramJson(const Json& json, const std::string& path, const Json& config, UnigramOptions& options) {
  CheckJsonClass(options, {TokenizerClass::kAlbert, TokenizerClass::kXlmRoberta}, "Unigram", path);
  UnigramModel model = ReadPieces(json["model"], path);
  options.normalizer = TextNormalizer(JsonPartOrNull(json, "normalizer"), path);
  const std::string config_path = (std::filesystem::path(path).parent_path() / kTokenizerConfigFile).string();
  const bool albert = options.tokenizer_class == TokenizerClass::kAlbert;
  if (albert || options.tokenizer_class == TokenizerClass::kXlmRoberta) {
    albert ? UseAlbertParts(config, config_path, options) : UseXlmRobertaParts(config, config_path, options);
    const int32_t unknown = albert ? 1 : 3;  // whatever the file says
    if (model.pieces.size() <= unknown) Fail("{}: expected more than {} pieces", path, unknown);
    model.unk_id = unknown;
  } else {
    ReadPreTokenizer(JsonPartOrNull(json, "pre_tokenizer"), path + ": \"pre_tokenizer\"", options);
    ReadUnigramDecoder(json, path, options);
  }
  ReadJsonCommon(json, model.pieces, path, config, options);
  return model;
}

std::shared_ptr<const Tokenizer> LoadUnigram(const std::string& folder, const Json& json) {
  const bool has_json = !json.is_null();
  const std::string path = InFolder(folder, has_json ? kTokenizerJsonFile : kShiftedPiecesFile);
  UnigramOptions options;
  if (!has_json) options.UseRobertaNames();
  const Json config = ReadTokenizerSettings(folder, options);
  UnigramModel model;
  if (has_json) {
    model = ReadUnigramJson(json, path, config, options);
  } else {
    if (options.tokenizer_class == TokenizerClass::kUnsaid) options.tokenizer_class = TokenizerClass::kXlmRoberta;
    if (options.tokenizer_class != TokenizerClass::kXlmRoberta)
      Fail("{}: {} is XLMRobertaTokenizer's, the folder's \"tokenizer_class\" is another", Shown(folder),
           kShiftedPiecesFile);
    SentencePieceModel pieces = ParseSentencePieceModel(ReadOwnKind(path, SentencePieceModel::kMaxBytes), path);
    for (size_t id = 0; id < pieces.pieces.size(); ++id)
      if (pieces.types[id] == PieceType::kControl || pieces.types[id] == PieceType::kUserDefined)
        AddPiece(pieces.pieces[id], pieces.types[id] == PieceType::kControl, options);
    options.normalizer = TextNormalizer(std::make_shared<const CharsMap>(std::move(pieces.normalizer)));
    UseXlmRobertaParts(config, InFolder(folder, kTokenizerConfigFile), options);
    model = ShiftedModel(std::move(pieces), options, path);
  }
  return std::make_shared<UnigramTokenizer>(std::move(model), path, std::move(options), ReadTokenizerFiles(folder));
}

}  // namespace lshformer
