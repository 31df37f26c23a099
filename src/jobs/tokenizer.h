// Tokenizers at work on files: a vocabulary or word vectors from text, text to ids, ids to text.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/wordpiece/trainer.h"
#include "text/words/skip_gram.h"

namespace lshformer {

enum class TokenizerType { kWordPiece, kUnigram, kWords };

struct TokenizerTrainOptions {
  std::vector<std::string> input;  // text, plain or gzip; "-": stdin
  std::string output_dir;          // gets vocab.txt, spiece.model or words.txt with characters.txt, and its settings
  bool overwrite_output_dir = false;
  WordPieceTraining training;  // accents are stripped where case is folded
  // kUnigram: ALBERT's SentencePiece (text/sentence_piece/trainer.h); of `training` it heeds vocab_size and whether
  // case is folded. kWords: whole words (text/words/word_tokenizer.h); it heeds vocab_size and min_frequency, and
  // `input` may be SQuAD's JSON (.json), of which it reads contexts and questions.
  TokenizerType type = TokenizerType::kWordPiece;
};
// Error if the folder is not empty and is not to be overwritten. Error if vocab_size does not fit the text.
void RunTokenizerTrain(const TokenizerTrainOptions& options);

struct WordVectorOptions {
  std::vector<std::string>
      input;              // text, plain or gzip; .jsonl: rows with a "text"; .json: SQuAD's contexts and questions
  std::string output;     // word2vec's text format (data/word_vectors.h)
  bool lowercase = true;  // vectors of words in lower case
  SkipGramOptions training;
};
// Words around each other are those of one paragraph, row, context or question.
void RunTokenizerVectors(const WordVectorOptions& options);

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
