// Which tokenizer a folder holds.
#include <filesystem>

#include "base/error.h"
#include "text/sentence_piece/sentence_piece.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"
#include "text/unigram.h"
#include "text/wordpiece/wordpiece.h"
#include "text/words/word_tokenizer.h"

namespace lshformer {

std::shared_ptr<const Tokenizer> Tokenizer::Load(const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    Fail("{}: no such folder; a model or tokenizer is a folder on this machine, names are not downloaded",
         Shown(folder, 120));
  const auto has = [&](const char* name) { return std::filesystem::exists(InFolder(folder, name)); };
  if (has(kWordsFile)) {
    for (const char* other : {kVocabularyFile, kSentencePieceFile, kTokenizerJsonFile})
      if (has(other)) Fail("{}: both words.txt and {} in this folder, expected one of them", Shown(folder), other);
    return LoadWordTokenizer(folder);
  }
  if (has(kTokenizerJsonFile)) {
    const std::string path = InFolder(folder, kTokenizerJsonFile);
    const Json json = ReadJsonObject(path);
    return ModelOf(json, path) == JsonModel::kUnigram ? LoadUnigram(folder, json) : LoadWordPiece(folder, json);
  }
  if (has(kSentencePieceFile)) {
    if (has(kVocabularyFile))
      Fail("{}: both vocab.txt and spiece.model in this folder, expected one of them", Shown(folder));
    return LoadSentencePiece(folder);
  }
  if (!has(kVocabularyFile))
    Fail("{}: no vocab.txt and no tokenizer.json in this folder, and no spiece.model or words.txt", Shown(folder));
  return LoadWordPiece(folder, Json());
}

}  // namespace lshformer
