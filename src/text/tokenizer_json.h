// tokenizer.json, where HF's library keeps everything: newer releases write it without a vocab.txt beside it.
#pragma once
#include <string>

#include "text/wordpiece.h"

namespace lshformer {

// Returns the vocabulary as the text of a vocab.txt and sets the normaliser, the added tokens and [UNK], [CLS], [SEP].
// Error names the file and what of it is not BERT's WordPiece.
std::string ReadTokenizerJson(const std::string& path, WordPieceOptions& options);

}  // namespace lshformer
