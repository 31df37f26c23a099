// tokenizer.json, where HF's library keeps everything: newer releases write it without a vocabulary's file beside it.
// Its truncation and padding are ignored, but for the side that is cut. What is not understood and would change a token
// is an error that names the file and it.
#pragma once
#include <string>

#include "text/unigram.h"
#include "text/vocabulary.h"
#include "text/wordpiece/wordpiece.h"

namespace lshformer {

enum class JsonModel { kWordPiece, kUnigram };
JsonModel ModelOf(const Json& json, const std::string& path);

// Returns the vocabulary, in which numbers may be left out, and sets the normaliser (unless tokenizer_config.json,
// `config`, has it: tokenizer_class.h), the added tokens and [UNK], [CLS], [SEP].
Vocabulary ReadWordPieceJson(const Json& json, const std::string& path, const Json& config, WordPieceOptions& options);

// The same of a Unigram model, with its scores. Of AlbertTokenizer's settings in `config`, "do_lower_case",
// "keep_accents" and "add_prefix_space" count where they say otherwise than the file.
UnigramModel ReadUnigramJson(const Json& json, const std::string& path, const Json& config, UnigramOptions& options);

}  // namespace lshformer
