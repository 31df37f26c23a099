// Text to token ids with offsets: as Hugging Face's tokenizers of BERT, ALBERT, RoBERTa, XLM-R, ModernBERT and their
// kin do it, or whole words.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_template.h"

namespace lshformer {

class AddedTokens;

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<std::pair<int32_t, int32_t>>
      offsets;  // code points, half-open, into the text (or pair) the token is from; specials {0, 0}
  bool truncated = false;
  // Of a tokenizer with characters (character_vocab_size() > 0): those of token i are characters[cu_characters[i]] to
  // characters[cu_characters[i + 1] − 1], at least one; cu_characters has one entry more than there are tokens. Of
  // others, and of a text without a token, both may be empty.
  std::vector<int32_t> characters{}, cu_characters{};

  void Push(int32_t id, int32_t type, int32_t begin, int32_t end) {
    ids.push_back(id);
    type_ids.push_back(type);
    offsets.emplace_back(begin, end);
  }
  void Resize(size_t tokens) {
    ids.resize(tokens);
    type_ids.resize(tokens);
    offsets.resize(tokens);
    if (cu_characters.empty()) return;
    cu_characters.resize(tokens + 1, static_cast<int32_t>(characters.size()));
    characters.resize(static_cast<size_t>(cu_characters.back()));
  }
  // Takes `count` tokens away that follow the first `lead`; where there are characters, lead is 0.
  void Remove(size_t lead, size_t count);
};

struct EncodeOptions {
  bool add_special_tokens = true;
  int max_length = 0;       // 0: no limit; longest_first truncation, specials counted
  bool lower_case = false;  // the text first, but for added tokens in it; places are then those in the lower-cased text
};

class Tokenizer;
// The least max_seq_length: room for what stands around `texts` texts (1 or 2) and one token of each, at least for what
// BERT puts there.
int64_t ShortestSeqLength(int texts, const Tokenizer* tokenizer);
// From there to `positions`, those of the model, where above 0. OptionError.
void CheckMaxSeqLength(int64_t max_seq_length, int texts, const Tokenizer* tokenizer, int64_t positions = 0);

class Tokenizer {
 public:
  // By what the folder holds, as transformers does it: tokenizer.json goes before all else (its model says whether it
  // is WordPiece, Unigram or BPE), then vocab.txt is WordPiece, spiece.model SentencePiece, vocab.json with merges.txt
  // byte-level BPE, sentencepiece.bpe.model XLM-R's Unigram; words.txt with characters.txt are whole words.
  // tokenizer_config.json, special_tokens_map.json and added_tokens.json are read where present (tokenizer_files.h).
  // Error names the file and line. A tokenizer.json's own truncation and padding are ignored.
  static std::shared_ptr<const Tokenizer> Load(const std::string& folder);
  virtual ~Tokenizer() = default;

  // The text, or the text and its pair, with what stands around them (text_template()). Invalid UTF-8 is an Error; see
  // CleanUtf8 for raw text. An empty pair is a text too.
  Encoding Encode(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options) const;
  Encoding Encode(std::string_view text) const { return Encode(text, {}, {}); }
  // Joins pieces to text as HF does, with its clean-up of spaces where the settings ask for it; specials left out when
  // asked.
  virtual std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const = 0;

  virtual int32_t vocab_size() const = 0;
  virtual int32_t character_vocab_size() const { return 0; }  // 0: it gives no characters of its tokens
  virtual const std::string& Token(int32_t id) const = 0;     // Error if out of range
  virtual int32_t Id(std::string_view token) const = 0;       // −1 if absent
  virtual int32_t pad_id() const = 0;
  virtual int32_t unk_id() const = 0;
  virtual int32_t cls_id() const = 0;  // these three (of byte-level BPE all five): −1 of a tokenizer that has none
  virtual int32_t sep_id() const = 0;
  virtual int32_t mask_id() const = 0;
  virtual bool IsSpecial(int32_t id) const;
  // Whether the token goes on with the word of the token before it: masking of whole words and n-grams asks. Means
  // nothing of special tokens.
  virtual bool ContinuesWord(int32_t id) const = 0;
  virtual const TextTemplate& text_template() const = 0;
  // Whether a text that is too long loses its beginning, not its end: tokenizer_config.json's truncation_side.
  virtual bool truncates_left() const = 0;
  virtual int64_t model_max_length() const = 0;  // tokenizer_config.json's; 0 where it has none, or none that limits
  // Writes the files of the folder it was loaded from, byte for byte, and removes those of another tokenizer. What that
  // folder lacked of vocab.txt (unless it has tokenizer.json or spiece.model), tokenizer_config.json and
  // special_tokens_map.json is made. A max_length above 0 is written as model_max_length.
  virtual void Save(const std::string& folder, int64_t max_length) const = 0;

 protected:
  // The tokens that Encode recognises verbatim in raw text.
  virtual const AddedTokens& added_tokens() const = 0;
  // Appends the tokens of `text`, which has none of them, until `out` has `limit` tokens or more: ids, type and
  // offsets. The first code point of `text` is number `first`. Returns whether some of `text` was left over.
  virtual bool AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit, Encoding& out) const = 0;
  // What is done to the places of the tokens of a text, those after the first `lead`, when it has been cut.
  virtual void FinishPlaces(std::string_view /*text*/, size_t /*lead*/, Encoding& /*out*/) const {}

 private:
  std::string LowerCased(std::string_view text) const;
  // The same as AppendPieces, of any text.
  bool AppendText(std::string_view text, int32_t type, size_t limit, Encoding& out) const;
};

// All texts on all cores, in order. texts[i] with pairs[i], where that is one (pairs may be empty: none).
std::vector<Encoding> EncodeAll(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                const std::vector<std::optional<std::string>>& pairs, const EncodeOptions& options);

// Raw text: invalid UTF-8 becomes U+FFFD (counted in *replaced), NUL stays (the normaliser drops it).
std::string CleanUtf8(std::string_view bytes, int64_t* replaced);
bool IsValidUtf8(std::string_view bytes);

}  // namespace lshformer
