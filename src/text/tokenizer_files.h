// The files of a tokenizer's folder: what kinds of tokenizers have in common of reading and writing them.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/added_tokens.h"
#include "text/text_template.h"
#include "text/tokenizer_class.h"

namespace lshformer {

inline constexpr const char* kVocabularyFile = "vocab.txt";
inline constexpr const char* kTokenizerJsonFile = "tokenizer.json";
inline constexpr const char* kSentencePieceFile = "spiece.model";
inline constexpr const char* kShiftedPiecesFile = "sentencepiece.bpe.model";  // XLM-R's
inline constexpr const char* kBpeVocabularyFile = "vocab.json";
inline constexpr const char* kMergesFile = "merges.txt";
inline constexpr const char* kWordsFile = "words.txt";
inline constexpr const char* kCharactersFile = "characters.txt";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensFile = "special_tokens_map.json";
inline constexpr const char* kAddedTokensFile = "added_tokens.json";

// What the files beside the vocabulary say of any tokenizer.
struct TokenizerSettings {
  std::string unk = "[UNK]", sep = "[SEP]", pad = "[PAD]", cls = "[CLS]", mask = "[MASK]";
  std::string bos, eos;           // tokens of begin and end; "": none
  std::string other_unk;          // what the files name in place of `unk`, which the model has; "": nothing else
  bool adds_unsaid = true;        // of these, one that no file names and the vocabulary lacks is added, not left out
  bool clean_up_spaces = false;   // of decoded text: HF's clean_up_tokenization_spaces
  std::vector<AddedToken> added;  // beside the five, with ids; one of −1 is looked up, or given at the end
  std::string added_from = "tokenizer_config.json";  // where their ids were read, for errors
  std::vector<AddedToken> named;                     // what the files say of tokens that they name, the five and others
  std::map<std::string, std::string> named_in;       // of the five that the files name: the key, and which file does
  std::vector<std::string> further;                  // tokens that come after the five: looked up likewise
  bool lists_added = false;                          // tokenizer_config.json has a list of added tokens: it is complete
  bool truncates_left = false;
  int64_t model_max_length = 0;  // 0: none
  TokenizerClass tokenizer_class = TokenizerClass::kUnsaid;
  std::optional<TextTemplate> around;  // tokenizer.json's; without it, what goes with the kind of tokenizer

  void UseRobertaNames();  // <s> … as RobertaTokenizer and XLMRobertaTokenizer call the tokens
  // Whether transformers makes the tokenizer of a tokenizer.json's vocabulary and the settings alone.
  bool IsMadeOfSettings() const;
};

// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json, those that the folder has, into
// `settings`, as transformers does: where the first lists added tokens ("added_tokens_decoder") that counts, else the
// second goes over the first and the third gives ids. Error for what would change tokens and is not understood
// (tokenizer_class.h). Returns tokenizer_config.json (an empty object where there is none), in which a kind of
// tokenizer finds keys of its own.
Json ReadTokenizerSettings(const std::string& folder, TokenizerSettings& settings);

// Adds those of tokenizer.json to settings.added: they go over what added_tokens.json says of the same tokens, but not
// over tokenizer_config.json's list, and where the tokenizer is made of the settings that list alone counts.
void MergeAddedTokens(const std::vector<AddedToken>& tokens, TokenizerSettings& settings);

// The keys of tokenizer_config.json that every tokenizer has; `tokens` are those that it recognises whole.
Json TokenizerConfigJson(const TokenizerSettings& settings, const std::vector<AddedToken>& tokens);

using TokenizerFiles = std::map<std::string, std::string>;  // contents by name

std::string InFolder(const std::string& folder, const char* name);
// Whether a file of that name is one of a tokenizer's, of whatever kind.
bool IsTokenizerFile(std::string_view name);
// Those that the folder has of all files that a tokenizer's may have.
TokenizerFiles ReadTokenizerFiles(const std::string& folder);
// Writes them into the folder, together: a full disk does not leave half a tokenizer. Those of another tokenizer that
// are there are removed. Where `files` lack tokenizer_config.json it is `config`; special_tokens_map.json is made of
// the settings. A max_length above 0 that is not that of the settings is written into the config.
void SaveTokenizerFiles(const std::string& folder, TokenizerFiles files, const TokenizerSettings& settings,
                        const Json& config, int64_t max_length);

}  // namespace lshformer
