// The files of a tokenizer's folder: what kinds of tokenizers have in common of reading and writing them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/added_tokens.h"

namespace lshformer {

inline constexpr const char* kVocabularyFile = "vocab.txt";
inline constexpr const char* kTokenizerJsonFile = "tokenizer.json";
inline constexpr const char* kSentencePieceFile = "spiece.model";
inline constexpr const char* kWordsFile = "words.txt";
inline constexpr const char* kCharactersFile = "characters.txt";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensFile = "special_tokens_map.json";

// What tokenizer_config.json and special_tokens_map.json say of any tokenizer.
struct TokenizerSettings {
  std::string unk = "[UNK]", sep = "[SEP]", pad = "[PAD]", cls = "[CLS]", mask = "[MASK]";
  bool clean_up_spaces = false;                      // of decoded text: HF's clean_up_tokenization_spaces
  std::vector<AddedToken> added;                     // beside the five; an id of −1 is looked up, or given at the end
  std::string added_from = "tokenizer_config.json";  // where their ids were read, for errors
  int64_t model_max_length = 0;                      // 0: none
};

// Reads both files, where the folder has them, into `settings`. Returns tokenizer_config.json (an empty object where
// there is none), in which a kind of tokenizer finds keys of its own.
Json ReadTokenizerSettings(const std::string& folder, TokenizerSettings& settings);

// The keys of tokenizer_config.json that every tokenizer has; `tokens` are those that it recognises in raw text.
Json TokenizerConfigJson(const TokenizerSettings& settings, const std::vector<AddedToken>& tokens);
Json SpecialTokensJson(const TokenizerSettings& settings);  // special_tokens_map.json

using TokenizerFiles = std::map<std::string, std::string>;  // contents by name

std::string InFolder(const std::string& folder, const char* name);
// Those that the folder has of all files that a tokenizer's may have.
TokenizerFiles ReadTokenizerFiles(const std::string& folder);
// Writes them into the folder, together: a full disk does not leave half a tokenizer. Those of another tokenizer that
// are there are removed. Where `files` lack tokenizer_config.json it is `config`, special_tokens_map.json likewise. A
// max_length above 0 that is not that of the settings is written into the config.
void SaveTokenizerFiles(const std::string& folder, TokenizerFiles files, const TokenizerSettings& settings,
                        const Json& config, int64_t max_length);

}  // namespace lshformer
