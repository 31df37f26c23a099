// Tokenizers at work on files: a vocabulary from text, text to ids, ids to text.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/wordpiece_trainer.h"

namespace lshformer {

enum class TokenizerType { kWordPiece, kUnigram };

struct TokenizerTrainOptions {
  std::vector<std::string> input;  // text, plain or gzip; "-": stdin
  std::string output_dir;          // gets vocab.txt or spiece.model, and its settings
  bool overwrite_output_dir = false;
  WordPieceTraining training;  // accents are stripped where case is folded
  // kUnigram: ALBERT's SentencePiece (text/sentence_piece_trainer.h); of `training` it heeds vocab_size and whether
  // case is folded.
  TokenizerType type = TokenizerType::kWordPiece;
};
// Error if the folder is not empty and is not to be overwritten. Error if vocab_size does not fit the text.
void RunTokenizerTrain(const TokenizerTrainOptions& options);

struct TokenizerEncodeOptions {
  std::string tokenizer;  // its folder
  std::string input, output = "-";
  bool jsonl = false;  // lines are {"text", "text_pair"}
  EncodeOptions encode;
};
// Lines as EncodeLines of tokenizer_encode.h makes them. Bad lines of JSONL are in the end an Error that counts them.
void RunTokenizerEncode(const TokenizerEncodeOptions& options);

struct TokenizerDecodeOptions {
  std::string tokenizer;  // its folder
  std::string input;      // a list of ids, or {"input_ids"} or {"ids"}, a line
  std::string output = "-";
  bool skip_special_tokens = false;
};
// One line of text a line; a bad line is an Error.
void RunTokenizerDecode(const TokenizerDecodeOptions& options);

}  // namespace lshformer
