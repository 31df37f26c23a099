// Unigram models: of a tokenizer.json, as transformers writes it of ALBERT and XLM-R, and of XLM-R's
// sentencepiece.bpe.model. Pieces and offsets are those that Hugging Face's `tokenizers` gives, not SentencePiece's
// (sentence_piece.h).
//
// The text goes through the normaliser (text_normalizer.h), then into words: at white space, which goes
// (WhitespaceSplit), and before each ▁, which stands for a space and is put before a word (Metaspace). Of a word, the
// pieces c of the greatest
//
//   Σ score(c),   score of a character that is no piece by itself: the least of all pieces − 10
//
// (of equal ones, that whose last piece is longer), characters in a row that are no piece being one unknown piece. Time
// is linear in the text: one walk through a trie at each character, at most kMaxPieceBytes long.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/piece_tokenizer.h"
#include "text/text_normalizer.h"
#include "text/trie.h"
#include "text/vocabulary.h"

namespace lshformer {

struct Metaspace {
  enum class Prepend {
    kAlways,
    kFirst,
    kNever
  };  // a ▁ before a word that has none; kFirst: only where the text begins
  Prepend prepend = Prepend::kAlways;
  bool splits = true;  // before each ▁
};

struct UnigramModel {
  static constexpr size_t kMaxPieceBytes = 1024;
  Vocabulary pieces;
  std::vector<double> scores;  // [pieces]
  int32_t unk_id = 0;
};

struct UnigramOptions : TokenizerSettings {
  TextNormalizer normalizer;
  bool splits_at_spaces = false;
  std::optional<Metaspace> metaspace, decoder;
  UnigramOptions() {
    unk = "<unk>";
    pad = "<pad>";
  }
};

class UnigramTokenizer final : public PieceTokenizer {
 public:
  // Those of the five tokens that the pieces lack get ids at their end, as in HF; [UNK] is the model's. `files` are
  // those that it comes with, for Save. Errors name `where`.
  UnigramTokenizer(UnigramModel model, std::string_view where, UnigramOptions options, TokenizerFiles files);

  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;

  bool ContinuesWord(int32_t id) const override;  // as SentencePieceTokenizer's
  void Save(const std::string& folder, int64_t max_length) const override;

 protected:
  const TokenizerSettings& settings() const override { return options_; }
  bool AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit, Encoding& out) const override;

 private:
  class Pieces;

  UnigramOptions options_;
  std::vector<double> scores_;  // [pieces of the model]
  double unk_score_ = 0;
  Trie trie_;
};

// The parts of a tokenizer.json: the model with its scores, and in `options` all else. Of AlbertTokenizer's settings in
// `config` (tokenizer_config.json), "do_lower_case", "keep_accents" and "add_prefix_space" count where they say
// otherwise than the file.
UnigramModel ReadUnigramJson(const Json& json, const std::string& path, const Json& config, UnigramOptions& options);

// The tokenizer of a folder whose tokenizer.json `json` is the content of, or else (null) of one with
// sentencepiece.bpe.model, which is XLM-R's.
std::shared_ptr<const Tokenizer> LoadUnigram(const std::string& folder, const Json& json);

}  // namespace lshformer
