// The normaliser of a tokenizer.json whose model is Unigram: steps that Hugging Face's `tokenizers` names, one after
// the other, each character with the place it came from as that library aligns them.
//
//   Replace      a string, or runs of two spaces and more (the regular expression " {2,}"), by another string
//   NFD, NFKD    canonical or compatibility decomposition, marks in canonical order
//   StripAccents removal of marks (categories M*)
//   Lowercase    character by character
//   Precompiled  SentencePiece's table (chars_map.h), grapheme by grapheme
//
// Decompositions, categories and lower case are of the versions of Unicode that the library has (unicode.h).
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/normalized_text.h"
#include "text/sentence_piece/chars_map.h"

namespace lshformer {

class TextNormalizer {
 public:
  TextNormalizer() = default;  // changes nothing
  // `json` is the object "normalizer" of a tokenizer.json, or null. Error, which begins with `where`, names what is not
  // supported.
  TextNormalizer(const Json& json, const std::string& where);

  void Normalize(NormalizedText& text) const;

  // What AlbertTokenizer's settings ask for, whatever the file says: lower case, decomposition and removal of accents.
  bool lowercases() const;
  bool strips_accents() const;
  void SetLowercase(bool lowercase);
  void SetStripAccents(bool strip_accents);

 private:
  struct Replace {
    std::u32string pattern;  // empty: runs of spaces
    std::u32string content;
  };
  struct Decompose {
    bool compatible;
  };
  struct StripAccents {};
  struct Lowercase {};
  struct Precompiled {
    std::shared_ptr<const CharsMap> map;
  };
  using Step = std::variant<Replace, Decompose, StripAccents, Lowercase, Precompiled>;

  void Add(const Json& json, const std::string& where);
  template <class Kind>
  bool Has() const;

  static void Apply(const Replace& step, NormalizedText& text);
  static void Apply(const Decompose& step, NormalizedText& text);
  static void Apply(const StripAccents& step, NormalizedText& text);
  static void Apply(const Lowercase& step, NormalizedText& text);
  static void Apply(const Precompiled& step, NormalizedText& text);

  std::vector<Step> steps_;
};

}  // namespace lshformer
