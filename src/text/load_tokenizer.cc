// Which tokenizer a folder holds.
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "text/bpe/bpe.h"
#include "text/sentence_piece/sentence_piece.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"
#include "text/unigram/unigram.h"
#include "text/wordpiece/wordpiece.h"
#include "text/words/word_tokenizer.h"

namespace lshformer {
namespace {

std::shared_ptr<const Tokenizer> LoadJsonTokenizer(const std::string& folder) {
  const std::string path = InFolder(folder, kTokenizerJsonFile);
  const Json json = ReadJsonObject(path);
  switch (ModelOf(json, path)) {
    case JsonModel::kWordPiece:
      return LoadWordPiece(folder, json);
    case JsonModel::kUnigram:
      return LoadUnigram(folder, json);
    case JsonModel::kBpe:
      return LoadBpe(folder, json);
  }
  return nullptr;
}

// The vocabularies of older folders, and which class they are of.
struct OldVocabulary {
  const char* file;
  TokenizerClass of;
  std::shared_ptr<const Tokenizer> (*load)(const std::string& folder);
};
constexpr OldVocabulary kOldVocabularies[] = {
    {kVocabularyFile, TokenizerClass::kBert, [](const std::string& folder) { return LoadWordPiece(folder, Json()); }},
    {kSentencePieceFile, TokenizerClass::kAlbert, LoadSentencePiece},
    {kBpeVocabularyFile, TokenizerClass::kRoberta, [](const std::string& folder) { return LoadBpe(folder, Json()); }},
    {kShiftedPiecesFile, TokenizerClass::kXlmRoberta,
     [](const std::string& folder) { return LoadUnigram(folder, Json()); }}};

// The one that the folder has; of several that of its class.
const OldVocabulary& OldVocabularyOf(const std::string& folder) {
  std::vector<const OldVocabulary*> there;
  for (const OldVocabulary& old : kOldVocabularies)
    if (std::filesystem::exists(InFolder(folder, old.file))) there.push_back(&old);
  if (there.empty())
    Fail("{}: no vocab.txt and no tokenizer.json in this folder, and no vocab.json, spiece.model, {} or words.txt",
         Shown(folder), kShiftedPiecesFile);
  if (there.size() == 1) return *there[0];
  TokenizerSettings settings;
  ReadTokenizerSettings(folder, settings);
  for (const OldVocabulary* old : there)
    if (old->of == settings.tokenizer_class) return *old;
  Fail("{}: both {} and {} in this folder, expected one of them", Shown(folder), there[0]->file, there[1]->file);
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::Load(const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    Fail("{}: no such folder; a model or tokenizer is a folder on this machine, names are not downloaded",
         Shown(folder, 120));
  const auto has = [&](const char* name) { return std::filesystem::exists(InFolder(folder, name)); };
  if (has(kWordsFile)) {
    for (const char* other :
         {kVocabularyFile, kSentencePieceFile, kTokenizerJsonFile, kBpeVocabularyFile, kShiftedPiecesFile})
      if (has(other)) Fail("{}: both words.txt and {} in this folder, expected one of them", Shown(folder), other);
    return LoadWordTokenizer(folder);
  }
  return has(kTokenizerJsonFile) ? LoadJsonTokenizer(folder) : OldVocabularyOf(folder).load(folder);
}

}  // namespace lshformer
