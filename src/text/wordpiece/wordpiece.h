// BERT's tokenizer: words by words.h, then each word into pieces, the longest that fits first. Results equal those of
// Hugging Face's fast tokenizer (`BertTokenizerFast`), ids, types and offsets.
#pragma once
#include <memory>
#include <string>

#include "text/piece_tokenizer.h"
#include "text/trie.h"
#include "text/vocabulary.h"
#include "text/words/words.h"

namespace lshformer {

struct WordPieceOptions : TokenizerSettings {
  NormalizerOptions normalizer{};
  bool cleans_tokens = true;  // decoding takes spaces before punctuation away
};

class WordPieceTokenizer final : public PieceTokenizer {
 public:
  // Error, which names `where`, if the vocabulary has no `unk`. Others of the five that it lacks get ids at its end, as
  // in HF. `files` are those it comes with, for Save.
  WordPieceTokenizer(Vocabulary vocabulary, std::string_view where, const WordPieceOptions& options,
                     TokenizerFiles files = {});

  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;

  bool ContinuesWord(int32_t id) const override { return Token(id).starts_with("##"); }
  void Save(const std::string& folder, int64_t max_length) const override;

  const WordPieceOptions& options() const { return options_; }

 protected:
  const TokenizerSettings& settings() const override { return options_; }
  bool AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit, Encoding& out) const override;

 private:
  class PieceSink;

  WordPieceOptions options_;
  Trie first_pieces_, next_pieces_;  // the latter without their "##"
};

// The parts of a tokenizer.json. Returns the vocabulary, in which numbers may be left out, and sets the normaliser
// (unless tokenizer_config.json, `config`, has it: tokenizer_class.h), the added tokens and [UNK], [CLS], [SEP].
Vocabulary ReadWordPieceJson(const Json& json, const std::string& path, const Json& config, WordPieceOptions& options);

// The tokenizer of a folder with tokenizer.json, which `json` is the content of, or else (null) with vocab.txt.
std::shared_ptr<const Tokenizer> LoadWordPiece(const std::string& folder, const Json& json);

}  // namespace lshformer
