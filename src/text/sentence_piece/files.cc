// A SentencePiece tokenizer's folder: spiece.model, and beside it HF's settings.
#include "base/files.h"

#include <memory>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "text/sentence_piece/model.h"
#include "text/sentence_piece/sentence_piece.h"

namespace lshformer {

void SentencePieceTokenizer::Save(const std::string& folder, int64_t max_length) const {
  Json config = TokenizerConfigJson(options_, added_.tokens());
  config["do_lower_case"] = options_.text.lowercase;
  config["remove_space"] = options_.text.remove_space;
  config["keep_accents"] = options_.text.keep_accents;
  config["tokenizer_class"] = "AlbertTokenizer";
  SaveTokenizerFiles(folder, files_, options_, config, max_length);
}

std::shared_ptr<const Tokenizer> LoadSentencePiece(const std::string& folder) {
  const std::string path = InFolder(folder, kSentencePieceFile);
  SentencePieceOptions options;
  const Json config = ReadTokenizerSettings(folder, options);
  if (options.tokenizer_class != TokenizerClass::kAlbert && options.tokenizer_class != TokenizerClass::kUnsaid)
    Fail("{}: spiece.model is AlbertTokenizer's, the folder's \"tokenizer_class\" is another", Shown(folder));
  const std::string config_path = InFolder(folder, kTokenizerConfigFile);
  options.text.lowercase = GetBoolOr(config, "do_lower_case", config_path, true);
  options.text.remove_space = GetBoolOr(config, "remove_space", config_path, true);
  options.text.keep_accents = GetBoolOr(config, "keep_accents", config_path, false);
  const std::string spiece = ReadOwnKind(path, SentencePieceModel::kMaxBytes);
  return std::make_shared<SentencePieceTokenizer>(spiece, path, options, ReadTokenizerFiles(folder));
}

}  // namespace lshformer
