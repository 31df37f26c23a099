#include "text/bpe/bpe.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/added_token_builder.h"
#include "text/clean_up.h"
#include "text/code_points.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

// Where the bytes of a text came from. Fast where it is asked for in ascending order.
class BytePlaces {
 public:
  // The text is the original one; its first code point is number `first`.
  BytePlaces(std::string_view text, int32_t first) : text_(text), first_(first) {}
  // It was made by a normaliser; `of_byte` is the number of the character of each byte.
  BytePlaces(NormalizedSpan made, const std::vector<uint32_t>& of_byte) : made_(made), of_byte_(&of_byte) {}

  std::pair<int32_t, int32_t> Of(size_t begin, size_t end) {
    if (of_byte_ != nullptr) return {made_[(*of_byte_)[begin]].begin, made_[(*of_byte_)[end - 1]].end};
    const int32_t from = CodePointAt(begin);
    return {from, CodePointAt(end - 1) + 1};
  }

 private:
  int32_t CodePointAt(size_t byte) {
    for (; counted_ > byte + 1; --counted_) seen_ -= BeginsCodePoint(text_[counted_ - 1]) ? 1 : 0;
    for (; counted_ <= byte; ++counted_) seen_ += BeginsCodePoint(text_[counted_]) ? 1 : 0;
    return first_ + seen_ - 1;
  }

  std::string_view text_;
  int32_t first_ = 0;
  size_t counted_ = 0;  // bytes
  int32_t seen_ = 0;    // code points that begin in them
  NormalizedSpan made_;
  const std::vector<uint32_t>* of_byte_ = nullptr;
};

BpeMerges MergesOf(const TokenPairs& pairs, const Vocabulary& vocabulary, const std::string& where) {
  BpeMerges merges(pairs.size());
  const auto id_of = [&](const std::string& token, size_t number) {
    const int32_t id = vocabulary.Id(token);
    if (id < 0) Fail("{}: merge {}: \"{}\" is no token of the vocabulary", where, number + 1, Shown(token, 60));
    return id;
  };
  for (size_t rank = 0; rank < pairs.size(); ++rank) {
    const auto& [left, right] = pairs[rank];
    const int32_t left_id = id_of(left, rank), right_id = id_of(right, rank);
    merges.Set(left_id, right_id, {static_cast<uint32_t>(rank), id_of(left + right, rank)});
  }
  return merges;
}

bool IsSpaceOfToken(char32_t c) { return c == 0x120 || IsAnySpace(c); }  // Ġ

}  // namespace

// Text in, tokens out, until there are `limit`.
class BpeTokenizer::Pieces {
 public:
  Pieces(const BpeTokenizer& tokenizer, int32_t type, size_t limit, Encoding& out)
      : tokenizer_(tokenizer), type_(type), limit_(limit), out_(out) {}

  // The bytes [begin, end) of `text`, none where that is behind `end`, in which no token is found whole.
  bool AddText(std::string_view text, size_t begin, size_t end, BytePlaces& places) {
    if (begin >= end) return true;
    std::string_view part = text.substr(begin, end - begin);
    const bool adds_space = tokenizer_.options_.words.adds_space() && part[0] != ' ';
    if (adds_space) {
      with_space_.assign(1, ' ').append(part);
      part = with_space_;
    }
    size_t at = 0;
    // The space that is put before the text has the place of its first character.
    const auto put = [&](int32_t id, size_t bytes) {
      const size_t from = at - (adds_space && at > 0 ? 1 : 0);
      at += bytes;
      const size_t to = std::max(at - (adds_space ? 1 : 0), size_t{1});
      const auto [first, last] = places.Of(begin + from, begin + to);
      out_.Push(id, type_, first, last);
    };
    return tokenizer_.options_.words.ForEachWord(part, [&](std::string_view word) {
      if (!HasRoom()) return false;
      at = static_cast<size_t>(word.data() - part.data());
      if (const int32_t id = tokenizer_.model_.TokenOf(word); id >= 0) {
        put(id, word.size());
      } else {
        for (const BpePiece& piece : tokenizer_.model_.Split(word, scratch_)) put(piece.id, piece.bytes);
      }
      return true;
    });
  }

  // The original text [at, end) of `text`, whose first code point is number `first`.
  bool AddOriginal(std::string_view text, int32_t first) {
    BytePlaces places(text, first);
    AddedTokens::Match match;
    for (size_t at = 0;;) {
      match = tokenizer_.added_.FindNormalized(text, match);
      if (!AddText(text, at, match.begin, places)) return false;
      if (match.token == nullptr) return true;
      const auto [from, to] = places.Of(match.begin, match.end);
      if (!AddToken(match.token->id, from, to)) return false;
      at = match.end;
    }
    return true;
  }

  bool AddNormalized(const NormalizedText& text) {
    std::vector<uint32_t> of_byte;
    const std::string bytes = Utf8Of(text, &of_byte);
    BytePlaces places(text, of_byte);
    AddedTokens::Match match;
    for (size_t at = 0;;) {
      match = tokenizer_.added_.FindNormalized(bytes, match);
      if (!AddText(bytes, at, match.begin, places)) return false;
      if (match.token == nullptr) return true;
      const auto [from, to] = places.Of(match.begin, match.end);
      if (!AddToken(match.token->id, from, to)) return false;
      at = match.end;
    }
    return true;
  }

 private:
  bool HasRoom() const { return out_.ids.size() < limit_; }

  bool AddToken(int32_t id, int32_t begin, int32_t end) {
    if (!HasRoom()) return false;
    out_.Push(id, type_, begin, end);
    return true;
  }

  const BpeTokenizer& tokenizer_;
  const int32_t type_;
  const size_t limit_;
  Encoding& out_;
  std::string with_space_;
  BpeModel::Scratch scratch_;
};

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, const TokenPairs& merges, const std::string& where,
                           BpeTokenizerOptions options, TokenizerFiles files)
    : PieceTokenizer(std::move(vocabulary), std::move(files)),
      options_(std::move(options)),
      model_(vocabulary_, MergesOf(merges, vocabulary_, where), options_.model) {
  if (options_.words.cuts()) model_.KnowWords();
  AddSpecials(where);
  if (!options_.trims_places) return;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) margins_.push_back(MarginsOf(Token(id)));
  margins_in_text_.resize(margins_.size());
  for (const AddedToken& token : added_.tokens()) {
    const Margins own = MarginsOf(token.content);
    const bool has = token.lstrip || token.rstrip || own.begin > 0 || own.end > 0;
    margins_in_text_[static_cast<size_t>(token.id)] = has;
  }
}

void BpeTokenizer::AddSpecials(std::string_view where) {
  AddedTokenBuilder added(options_, vocabulary_, where);
  // In the order in which transformers looks for them.
  unk_ = added.AddNamed({.content = options_.unk});
  sep_ = added.AddNamed({.content = options_.sep});
  pad_ = added.AddNamed({.content = options_.pad});
  cls_ = added.AddNamed({.content = options_.cls});
  mask_ = added.AddNamed({.content = options_.mask});
  added_ = added.Build([&](const std::string& token) {
    NormalizedText text = OriginalText(token, 0);
    options_.normalizer.Normalize(text);
    return Utf8Of(text);
  });
  ForgetAbsent(options_);
  template_ = options_.around.value_or(TextTemplate::Roberta(cls_, sep_));
}

BpeTokenizer::Margins BpeTokenizer::MarginsOf(std::string_view token) {
  Margins margins;
  const char* next = token.data();
  const char* const end = next + token.size();
  while (next < end && IsSpaceOfToken(NextCodePoint(next))) ++margins.begin;
  for (size_t at = token.size(); at > 0; ++margins.end) {
    at = PreviousCodePoint(token, at);
    next = token.data() + at;
    if (!IsSpaceOfToken(NextCodePoint(next))) break;
  }
  return margins;
}

bool BpeTokenizer::ContinuesWord(int32_t id) const {
  const std::string& token = Token(id);
  return MarginsOf(token).begin == 0 && !token.starts_with("\u2581");
}

// Where a normaliser only composes characters, most texts are as it would make them.
bool BpeTokenizer::AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit, Encoding& out) const {
  // A text that is not cut into words at spaces is one word from its beginning to its end.
  const bool in_parts = options_.words.cuts_at_spaces() && !options_.normalizer.looks_at_ends();
  const size_t most = in_parts ? kStretchBytes : kWholeTextBytes;
  Pieces pieces(*this, type, limit, out);
  for (size_t at = 0; at < text.size();) {
    const std::string_view stretch = text.substr(at, StretchEnd(text, at, most) - at);
    if (options_.normalizer.Leaves(stretch)) {
      if (!pieces.AddOriginal(stretch, first)) return true;
    } else {
      NormalizedText normalized = OriginalText(stretch, first);
      options_.normalizer.Normalize(normalized);
      if (!pieces.AddNormalized(normalized)) return true;
    }
    first += static_cast<int32_t>(CountCodePoints(stretch));
    at += stretch.size();
  }
  return false;
}

// As the library does it: by the spaces that the token's text begins and ends with, whatever the place itself holds.
void BpeTokenizer::FinishPlaces(std::string_view text, size_t lead, Encoding& out) const {
  if (!options_.trims_places) return;
  std::optional<CodePointIndex> index;
  for (size_t i = lead; i < out.ids.size(); ++i) {
    auto& [begin, end] = out.offsets[i];
    const auto id = static_cast<size_t>(out.ids[i]);
    Margins margins = margins_[id];
    if (margins_in_text_[id]) {
      if (!index) index.emplace(text);
      margins = MarginsOf(index->Slice(begin, end));
    }
    if (margins.begin == 0 && margins.end == 0) continue;
    const bool is_first = i == lead || begin == 0;
    if (is_first && options_.keeps_first_space && margins.begin == 1) margins.begin = 0;
    begin = std::min(begin + static_cast<int32_t>(margins.begin), end);
    if (end >= static_cast<int32_t>(margins.end)) end = std::max(end - static_cast<int32_t>(margins.end), begin);
  }
}

std::string BpeTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const std::string& token = Token(id);
    if (!skip_special_tokens || !IsSpecial(id)) tokens.push_back(token);
  }
  std::string text = options_.decoder.Join(std::move(tokens));
  if (options_.clean_up_spaces) CleanUpSpaces(text);
  return text;
}

}  // namespace lshformer
