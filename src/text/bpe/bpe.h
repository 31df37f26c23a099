// Tokenizers whose model is byte-pair encoding: RoBERTa's and ModernBERT's of bytes (GPT-2's), and those of characters
// with a token for each byte. Results equal those of Hugging Face's `tokenizers`: ids, types, and offsets, which the
// white space that tokens begin and end with is taken out of where the post-processor says so.
//
// The text goes through the normaliser (text_normalizer.h), then into words (word_splitter.h), each of which is merged
// (bpe_model.h). Where nothing normalises the text, it is read as it stands. Time is O(n log n) in the longest word.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/bpe/bpe_model.h"
#include "text/bpe/token_decoder.h"
#include "text/bpe/word_splitter.h"
#include "text/piece_tokenizer.h"
#include "text/text_normalizer.h"

namespace lshformer {

struct BpeTokenizerOptions : TokenizerSettings {
  TextNormalizer normalizer;
  WordSplitter words;
  TokenDecoder decoder;
  BpeOptions model{};
  bool trims_places = false, keeps_first_space = false;  // post_processor.h
};

// Two tokens that merge, by their text; the first pair has the lowest rank.
using TokenPairs = std::vector<std::pair<std::string, std::string>>;

class BpeTokenizer final : public PieceTokenizer {
 public:
  // Error, which names `where`, if a pair or what it merges to is no token. Of the five tokens those that are absent
  // are added or left out (TokenizerSettings). `files` are those it comes with, for Save.
  BpeTokenizer(Vocabulary vocabulary, const TokenPairs& merges, const std::string& where, BpeTokenizerOptions options,
               TokenizerFiles files);

  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;

  // A token that begins with no space, as Ġ or ▁ are one.
  bool ContinuesWord(int32_t id) const override;
  void Save(const std::string& folder, int64_t max_length) const override;

 protected:
  const TokenizerSettings& settings() const override { return options_; }
  bool AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit, Encoding& out) const override;
  void FinishPlaces(std::string_view text, size_t lead, Encoding& out) const override;

 private:
  class Pieces;
  // How many spaces a token begins and ends with.
  struct Margins {
    uint32_t begin = 0, end = 0;
  };
  static Margins MarginsOf(std::string_view token);

  void AddSpecials(std::string_view where);

  BpeTokenizerOptions options_;
  BpeModel model_;
  std::vector<Margins> margins_;       // [vocab_size()], where places are trimmed
  std::vector<bool> margins_in_text_;  // [vocab_size()]: found whole with white space, which is that of the text
};

// The parts of a tokenizer.json.
struct BpeParts {
  Vocabulary vocabulary;
  TokenPairs merges;
};
BpeParts ReadBpeJson(const Json& json, const std::string& path, const Json& config, BpeTokenizerOptions& options);

// The tokenizer of a folder with tokenizer.json, which `json` is the content of, or else (null) with vocab.json and
// merges.txt, which is RoBERTa's.
std::shared_ptr<const Tokenizer> LoadBpe(const std::string& folder, const Json& json);

}  // namespace lshformer
