// Text to token ids with offsets, as HF's fast BERT tokenizer does it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<std::pair<int32_t, int32_t>>
      offsets;  // code points, half-open, into the text (or pair) the token is from; specials {0, 0}
  bool truncated = false;
};

struct EncodeOptions {
  bool add_special_tokens = true;
  int max_length = 0;  // 0: no limit; longest_first truncation, specials counted
};

// The rule of max_seq_length: room for the special tokens and one token of each of `texts` texts (1 or 2), so at least
// 2 · texts + 1; at most `positions`, those of the model, where above 0. OptionError.
void CheckMaxSeqLength(int64_t max_seq_length, int texts, int64_t positions = 0);

class Tokenizer {
 public:
  // A folder with vocab.txt, or else tokenizer.json (and tokenizer_config.json where present). Error names the file and
  // line. A tokenizer.json's own truncation and padding are ignored.
  static std::shared_ptr<const Tokenizer> Load(const std::string& folder);
  virtual ~Tokenizer() = default;

  // Invalid UTF-8 is an Error; see CleanUtf8 for raw text. An empty pair counts as absent.
  virtual Encoding Encode(std::string_view text, std::string_view pair, const EncodeOptions& options) const = 0;
  Encoding Encode(std::string_view text) const { return Encode(text, {}, {}); }
  // Joins pieces, "##" removed, HF's clean-up of spaces; specials left out when asked.
  virtual std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const = 0;

  virtual int32_t vocab_size() const = 0;
  virtual const std::string& Token(int32_t id) const = 0;  // Error if out of range
  virtual int32_t Id(std::string_view token) const = 0;    // −1 if absent
  virtual int32_t pad_id() const = 0;
  virtual int32_t unk_id() const = 0;
  virtual int32_t cls_id() const = 0;
  virtual int32_t sep_id() const = 0;
  virtual int32_t mask_id() const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // Whether a word goes on with this piece: "##ing" of WordPiece.
  virtual bool ContinuesWord(int32_t id) const { return false; }
  virtual int64_t model_max_length() const = 0;  // tokenizer_config.json's; 0 where it has none, or none that limits
  // Writes the files of the folder it was loaded from, byte for byte, and removes those of another tokenizer. What that
  // folder lacked of vocab.txt (unless it has tokenizer.json), tokenizer_config.json and special_tokens_map.json is
  // made. A max_length above 0 is written as model_max_length.
  virtual void Save(const std::string& folder, int64_t max_length) const = 0;
};

// All texts on all cores, in order. texts[i] with pairs[i] (pairs may be empty).
std::vector<Encoding> EncodeAll(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                const std::vector<std::string>& pairs, const EncodeOptions& options);

// Raw text: invalid UTF-8 becomes U+FFFD (counted in *replaced), NUL stays (the normaliser drops it).
std::string CleanUtf8(std::string_view bytes, int64_t* replaced);
bool IsValidUtf8(std::string_view bytes);

}  // namespace lshformer
