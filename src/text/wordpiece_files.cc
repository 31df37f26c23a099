// A WordPiece tokenizer's folder: vocab.txt (or tokenizer.json), and beside it HF's settings.
#include <filesystem>
#include <memory>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "base/files.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"
#include "text/wordpiece.h"

namespace lshformer {
namespace {

WordPieceOptions ReadOptions(const std::string& folder) {
  WordPieceOptions options;
  const Json config = ReadTokenizerSettings(folder, options);
  const std::string path = InFolder(folder, kTokenizerConfigFile);
  options.normalizer.lowercase = GetBoolOr(config, "do_lower_case", path, true);
  options.normalizer.strip_accents = GetBoolOr(config, "strip_accents", path, options.normalizer.lowercase);
  options.normalizer.ideographs = GetBoolOr(config, "tokenize_chinese_chars", path, true);
  return options;
}

}  // namespace

void WordPieceTokenizer::Save(const std::string& folder, int64_t max_length) const {
  TokenizerFiles files = files_;
  if (!files.contains(kTokenizerJsonFile) && !files.contains(kVocabularyFile)) {
    std::string& vocab = files[kVocabularyFile];
    for (int32_t id = 0; id < vocab_size(); ++id) vocab.append(Token(id)).append("\n");
  }
  const NormalizerOptions& normalizer = options_.normalizer;
  Json config = TokenizerConfigJson(options_, added_.tokens());
  config["do_lower_case"] = normalizer.lowercase;
  config["strip_accents"] = normalizer.strip_accents == normalizer.lowercase ? Json() : Json(normalizer.strip_accents);
  config["tokenize_chinese_chars"] = normalizer.ideographs;
  config["tokenizer_class"] = "BertTokenizer";
  SaveTokenizerFiles(folder, std::move(files), options_, config, max_length);
}

std::shared_ptr<const Tokenizer> LoadWordPiece(const std::string& folder) {
  const std::string path = InFolder(folder, kVocabularyFile), json = InFolder(folder, kTokenizerJsonFile);
  WordPieceOptions options = ReadOptions(folder);
  TokenizerFiles files = ReadTokenizerFiles(folder);
  if (std::filesystem::exists(path)) {
    const std::string vocabulary =
        files.contains(kVocabularyFile) ? files[kVocabularyFile] : ReadOwnKind(path, Vocabulary::kMaxBytes);
    return std::make_shared<WordPieceTokenizer>(vocabulary, path, options, std::move(files));
  }
  return std::make_shared<WordPieceTokenizer>(ReadTokenizerJson(json, options), json, options, std::move(files));
}

}  // namespace lshformer
