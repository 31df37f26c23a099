// Which of Hugging Face's tokenizers a folder is for, and what of its settings would change tokens in a way that we do
// not have.
#pragma once
#include <string>

#include "base/json.h"

namespace lshformer {

enum class TokenizerClass {
  kUnsaid,  // neither tokenizer_config.json nor config.json says
  kBert,    // BertTokenizer and those that are it by another name: the settings say how text is normalised
  kAlbert,  // AlbertTokenizer
  // RobertaTokenizer and XLMRobertaTokenizer: of tokenizer.json the vocabulary, the merges or scores, the added tokens
  // and the table of characters count, all else follows from the class and its settings
  kRoberta,
  kXlmRoberta,
  kGeneric,  // PreTrainedTokenizerFast: all that counts is tokenizer.json
  kWords,    // ours
};

// "tokenizer_class" of tokenizer_config.json (`config`), else of config.json, else what goes with its "model_type".
// With ModernBERT a tokenizer.json counts, whatever its class is said to be. Error for a class that is none of these,
// and for keys of `config` that change tokens and are not understood.
TokenizerClass ReadTokenizerClass(const std::string& folder, const Json& config);

}  // namespace lshformer
