// Whole words with their characters, for the question answering models that begin with word vectors: English text to
// words by english_words.h, each with an id and with the ids of its first characters.
//
//   words.txt       one word a line, its id the number of the line from 0; the first two are [PAD] and [UNK].
//   characters.txt  one character (code point) a line, likewise: white space, which is in no word, and control
//   characters
//                   have no line.
//
// A word has the id of its own spelling, else of it in lower case, else Capitalised, else in UPPER CASE, else 1. Its
// characters are those of its own spelling. The words [PAD] and [UNK] have no id of their own in text.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/vocabulary.h"

namespace lshformer {

inline constexpr int kCharactersPerWord = 16;  // of a longer word the first ones

class WordTokenizer final : public Tokenizer {
 public:
  // The contents of words.txt and characters.txt; `words_where` and `characters_where` name them in errors. `files` are
  // those it comes with, for Save.
  WordTokenizer(std::string_view words, std::string_view words_where, std::string_view characters,
                std::string_view characters_where, const TokenizerSettings& settings = {}, TokenizerFiles files = {});

  // The words with a space between them; [PAD] and [UNK] are the special ones.
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;

  int32_t vocab_size() const override { return words_.size(); }
  int32_t character_vocab_size() const override { return static_cast<int32_t>(characters_.size()); }
  const std::string& Token(int32_t id) const override;
  int32_t Id(std::string_view token) const override { return words_.Id(token); }
  // The id of a word of a text, by its spelling or one of the others; unk_id() where the vocabulary has none of them.
  int32_t Find(std::string_view word) const;
  int32_t CharacterId(char32_t c) const;                            // unk_id() if unknown
  const std::u32string& characters() const { return characters_; }  // by id; those of [PAD] and [UNK] are U+0000
  int32_t pad_id() const override { return 0; }
  int32_t unk_id() const override { return 1; }
  int32_t cls_id() const override { return -1; }
  int32_t sep_id() const override { return -1; }
  int32_t mask_id() const override { return -1; }
  bool IsSpecial(int32_t id) const override { return id == pad_id() || id == unk_id(); }
  bool ContinuesWord(int32_t) const override { return false; }
  const TextTemplate& text_template() const override { return bare_; }
  bool truncates_left() const override { return settings_.truncates_left; }
  int64_t model_max_length() const override { return settings_.model_max_length; }
  void Save(const std::string& folder, int64_t max_length) const override;

 protected:
  const AddedTokens& added_tokens() const override { return none_; }
  bool AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit, Encoding& out) const override;

 private:
  TokenizerSettings settings_;
  TokenizerFiles files_;
  Vocabulary words_;
  std::u32string characters_;
  std::array<int32_t, 128> ascii_;                 // ids of the characters below U+0080
  std::unordered_map<char32_t, int32_t> further_;  // of the others
  AddedTokens none_;
  TextTemplate bare_;
};

// The tokenizer of a folder with words.txt and characters.txt.
std::shared_ptr<const Tokenizer> LoadWordTokenizer(const std::string& folder);

// The spellings by which a word is looked up after its own: lower case, Capitalised, UPPER CASE (Unicode's full
// mappings, without a language). Some may equal another.
std::array<std::string, 3> CaseVariants(std::string_view word);

}  // namespace lshformer
