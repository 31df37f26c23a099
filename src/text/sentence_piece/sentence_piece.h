// ALBERT's tokenizer: the text as albert_text.h makes it, then SentencePiece's library. Ids equal those of Hugging
// Face's AlbertTokenizer (transformers 4); offsets are the library's, taken back to the original text: those of a piece
// that begins with ▁ include the white space that the ▁ stands for, a ▁ that stands for nothing has an empty range, and
// of the pieces that one character is replaced by each has all of that character.
//
// A piece of more than one character that ends in a comma after a digit is encoded once more without the comma, and the
// comma becomes a piece of its own.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/albert_text.h"
#include "text/piece_tokenizer.h"
#include "text/vocabulary.h"

namespace lshformer {

class CharsMap;
class SentencePieceLibraryModel;
struct SentencePieceModel;

struct SentencePieceOptions : TokenizerSettings {
  AlbertTextOptions text{};
  // Hugging Face's names. `unk` empty: what the model calls it.
  SentencePieceOptions() {
    unk = "";
    pad = "<pad>";
  }
};

// As ALBERT's data were made: a piece begins a word if it begins with ▁ or "<", is one punctuation character, or has a
// character that is neither a letter of English nor punctuation.
bool PieceContinuesWord(const std::string& piece);

class SentencePieceTokenizer final : public PieceTokenizer {
 public:
  // `spiece` is the file's content; Error if it is not a model that is safe to use (text/sentence_piece/model.h), or
  // calls its unknown piece otherwise than the options. Others of the five tokens that it lacks get ids at its end, as
  // in HF. `files` are those it comes with, for Save.
  SentencePieceTokenizer(const std::string& spiece, const std::string& where, const SentencePieceOptions& options,
                         TokenizerFiles files);
  ~SentencePieceTokenizer() override;

  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;

  bool ContinuesWord(int32_t id) const override { return PieceContinuesWord(Token(id)); }
  void Save(const std::string& folder, int64_t max_length) const override;

 protected:
  const TokenizerSettings& settings() const override { return options_; }
  bool AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit, Encoding& out) const override;

 private:
  struct Part {
    int32_t id;
    size_t bytes;  // of the normalised text, without ▁
  };
  SentencePieceTokenizer(SentencePieceModel model, const std::string& where, const SentencePieceOptions& options,
                         TokenizerFiles files);

  void AppendStretch(std::string_view text, int32_t first, int32_t type, Encoding& out) const;
  // The tokens of the bytes [begin, end) of `text`.
  void AppendPart(const AlbertText& text, size_t begin, size_t end, int32_t type, Encoding& out) const;
  // The piece of the bytes [begin, end) of `text`, its comma apart.
  void AppendSplit(const std::string& piece, const AlbertText& text, size_t begin, size_t end, int32_t type,
                   Encoding& out) const;
  int32_t IdOrUnknown(std::string_view piece) const;
  std::vector<Part> SplitBeforeComma(const std::string& piece) const;
  std::string DecodePieces(const std::vector<int>& ids) const;

  SentencePieceOptions options_;
  std::unique_ptr<const CharsMap> normalizer_;
  std::unique_ptr<const SentencePieceLibraryModel> processor_;
  int32_t pieces_;                   // of the model; ids from here on are added
  std::vector<bool> ends_in_comma_;  // [pieces] after a digit
};

// The tokenizer of a folder with spiece.model.
std::shared_ptr<const Tokenizer> LoadSentencePiece(const std::string& folder);

}  // namespace lshformer
