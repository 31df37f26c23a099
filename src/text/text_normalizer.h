// The normaliser of a tokenizer.json whose model is Unigram or BPE: steps that Hugging Face's `tokenizers` names, one
// after the other, each character with the place it came from as that library aligns them.
//
//   Replace      a string, or runs of two spaces and more (the regular expression " {2,}"), by another string
//   NFD, NFKD    canonical or compatibility decomposition, marks in canonical order
//   NFC, NFKC    the same, and then canonical composition
//   Strip        removal of white space at the beginning, at the end or at both
//   StripAccents removal of marks (categories M*)
//   Lowercase    character by character
//   Precompiled  SentencePiece's table (chars_map.h), grapheme by grapheme
//
// Decompositions, categories and lower case are of the versions of Unicode that the library has (unicode.h).
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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

  // Only the table of characters.
  explicit TextNormalizer(std::shared_ptr<const CharsMap> table) : steps_{Precompiled{std::move(table)}} {}

  void Normalize(NormalizedText& text) const;
  // Whether that leaves `text`, valid UTF-8, as it is: told at once where there are no steps or only NFC, else false.
  bool Leaves(std::string_view text) const;

  bool looks_at_ends() const { return Has<Strip>(); }  // what it does to a part of a text is not what it does to all

  void KeepPrecompiled();  // of the steps the tables of characters alone

  // What AlbertTokenizer makes of its settings before the tables of characters: quotation marks, decomposition and
  // removal of accents, lower case.
  void UseAlbertSteps(bool lowercase, bool strip_accents);
  bool lowercases() const;
  bool strips_accents() const;

 private:
  struct Replace {
    std::u32string pattern;  // empty: runs of spaces
    std::u32string content;
  };
  struct Decompose {
    bool compatible, composes = false;
  };
  struct Strip {
    bool left, right;
  };
  struct StripAccents {};
  struct Lowercase {};
  struct Precompiled {
    std::shared_ptr<const CharsMap> map;
  };
  using Step = std::variant<Replace, Decompose, Strip, StripAccents, Lowercase, Precompiled>;

  void Add(const Json& json, const std::string& where);
  template <class Kind>
  bool Has() const {
    return std::any_of(steps_.begin(), steps_.end(),
                       [](const Step& step) { return std::holds_alternative<Kind>(step); });
  }

  static void Apply(const Replace& step, NormalizedText& text);
  static void Apply(const Decompose& step, NormalizedText& text);
  static void Compose(const Decompose& step, NormalizedText& text);
  static void Apply(const Strip& step, NormalizedText& text);
  static void Apply(const StripAccents& step, NormalizedText& text);
  static void Apply(const Lowercase& step, NormalizedText& text);
  static void Apply(const Precompiled& step, NormalizedText& text);

  std::vector<Step> steps_;
};

}  // namespace lshformer
