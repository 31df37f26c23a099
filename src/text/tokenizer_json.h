// tokenizer.json, where HF's library keeps everything: newer releases write it without a vocabulary's file beside it.
// Its truncation and padding are ignored, but for the side that is cut. What is not understood and would change a token
// is an error that names the file and it. Here is what models have in common; the parts of each are read in its folder.
#pragma once
#include <initializer_list>
#include <string>

#include "base/json.h"
#include "text/post_processor.h"
#include "text/tokenizer_files.h"
#include "text/vocabulary.h"

namespace lshformer {

enum class JsonModel { kWordPiece, kUnigram, kBpe };
JsonModel ModelOf(const Json& json, const std::string& path);

// {"token": id, …}, in which numbers may be left out. Errors name `where`.
Vocabulary ReadVocabulary(const Json& vocab, const std::string& where);

const Json& JsonObjectIn(const Json& json, const char* key, const std::string& path);
// A part of the file, of the only type that goes with the model.
const Json& JsonPart(const Json& json, const char* key, const char* type, const std::string& path);
// The same where any type may be: null where the file has none.
Json JsonPartOrNull(const Json& json, const char* key);

// A tokenizer_class that is none of `expected` and not generic reads such a model otherwise. `model` is its name.
void CheckJsonClass(const TokenizerSettings& settings, std::initializer_list<TokenizerClass> expected,
                    const char* model, const std::string& path);

// Of two names of the unknown token, the model's and that of the files, BertTokenizer takes the files', which has to be
// in the vocabulary. Others take the model's, and the other is a special token of texts (settings.other_unk).
void UseUnknownToken(const std::string& of_model, const Vocabulary& vocabulary, TokenizerSettings& settings);

// Added tokens and the side that is cut, and, unless a class says it, what stands around texts, with [CLS] and [SEP]
// where the files name no others. BertTokenizer puts those around texts, AlbertTokenizer wants them in the vocabulary.
// `config` is tokenizer_config.json.
PostProcessor ReadJsonCommon(const Json& json, const Vocabulary& vocabulary, const std::string& path,
                             const Json& config, TokenizerSettings& settings);

}  // namespace lshformer
