// A WordPiece tokenizer's folder: vocab.txt (or tokenizer.json), and beside it HF's settings.
#include "base/files.h"

#include <memory>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"
#include "text/wordpiece/wordpiece.h"

namespace lshformer {
namespace {

// tokenizer_config.json's keys; returns it.
Json ReadOptions(const std::string& folder, WordPieceOptions& options) {
  Json config = ReadTokenizerSettings(folder, options);
  const std::string path = InFolder(folder, kTokenizerConfigFile);
  options.normalizer.lowercase = GetBoolOr(config, "do_lower_case", path, true);
  options.normalizer.strip_accents = GetBoolOr(config, "strip_accents", path, options.normalizer.lowercase);
  options.normalizer.ideographs = GetBoolOr(config, "tokenize_chinese_chars", path, true);
  return config;
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

std::shared_ptr<const Tokenizer> LoadWordPiece(const std::string& folder, const Json& json) {
  const bool has_json = !json.is_null();
  const std::string path = InFolder(folder, has_json ? kTokenizerJsonFile : kVocabularyFile);
  WordPieceOptions options;
  const Json config = ReadOptions(folder, options);
  TokenizerFiles files = ReadTokenizerFiles(folder);
  if (has_json) {
    Vocabulary vocabulary = ReadWordPieceJson(json, path, config, options);
    return std::make_shared<WordPieceTokenizer>(std::move(vocabulary), path, options, std::move(files));
  }
  if (options.tokenizer_class != TokenizerClass::kBert && options.tokenizer_class != TokenizerClass::kUnsaid)
    Fail("{}: vocab.txt is BertTokenizer's, the folder's \"tokenizer_class\" is another", Shown(folder));
  // What is no regular file, a pipe, is not among them.
  const std::string contents =
      files.contains(kVocabularyFile) ? files[kVocabularyFile] : ReadOwnKind(path, Vocabulary::kMaxBytes);
  return std::make_shared<WordPieceTokenizer>(Vocabulary(contents, path), path, options, std::move(files));
}

}  // namespace lshformer
