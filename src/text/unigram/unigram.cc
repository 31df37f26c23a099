#include "text/unigram/unigram.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/added_token_builder.h"
#include "text/clean_up.h"
#include "text/code_points.h"
#include "text/sentence_piece/sentence_piece.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

constexpr char32_t kMetaspaceSymbol = 0x2581;
constexpr double kUnknownPenalty = 10;

size_t CodePointBytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

// Normalised text in, tokens out. Its memory is that of the longest word.
class UnigramTokenizer::Pieces {
 public:
  Pieces(const UnigramTokenizer& tokenizer, int32_t type, Encoding& out)
      : tokenizer_(tokenizer), type_(type), out_(out) {}

  void AddText(NormalizedSpan text) {
    if (!tokenizer_.options_.splits_at_spaces) return AddWord(text);
    for (size_t at = 0; at < text.size();) {
      size_t end = at;
      while (end < text.size() && !IsAnySpace(text[end].c)) ++end;
      AddWord(text.subspan(at, end - at));
      at = end + 1;
    }
  }

 private:
  void AddWord(NormalizedSpan word) {
    if (word.empty()) return;
    const std::optional<Metaspace>& metaspace = tokenizer_.options_.metaspace;
    if (metaspace) {
      const bool has_symbol = word[0].c == ' ' || word[0].c == kMetaspaceSymbol;
      const bool wanted = metaspace->prepend == Metaspace::Prepend::kAlways ||
                          (metaspace->prepend == Metaspace::Prepend::kFirst && word[0].begin == 0);
      if (wanted && !has_symbol) Put(kMetaspaceSymbol, word[0]);
    }
    for (const NormalizedCharacter& character : word) {
      const char32_t c = metaspace && character.c == ' ' ? kMetaspaceSymbol : character.c;
      // The ▁ that was put before the word has the place of its first character, and is not before itself.
      if (metaspace && metaspace->splits && c == kMetaspaceSymbol) Segment();
      Put(c, character);
    }
    Segment();
  }

  void Put(char32_t c, const NormalizedCharacter& from) {
    AppendUtf8(c, bytes_);
    places_.resize(bytes_.size(), {from.begin, from.end});
  }

  // Viterbi's algorithm over the word's bytes: for each place the best way there.
  void Segment() {
    if (bytes_.empty()) return;
    const std::string_view word = bytes_;
    steps_.assign(word.size() + 1, {});
    for (size_t at = 0; at < word.size();) {
      const size_t one = CodePointBytes(word[at]);
      const double so_far = steps_[at].score;
      bool is_piece = false;
      const auto consider = [&](size_t length, double score, int32_t id) {
        Step& step = steps_[at + length];
        if (step.id >= 0 && !(so_far + score > step.score)) return;
        step = {so_far + score, at, id};
      };
      tokenizer_.trie_.ForEachPrefix(word.substr(at), [&](const Trie::Match& match) {
        consider(match.length, tokenizer_.scores_[static_cast<size_t>(match.value)], match.value);
        is_piece |= match.length == one;
      });
      if (!is_piece) consider(one, tokenizer_.unk_score_, tokenizer_.unk_);
      at += one;
    }
    AddBest(word);
    bytes_.clear();
    places_.clear();
  }

  void AddBest(std::string_view word) {
    best_.clear();
    for (size_t end = word.size(); end > 0; end = steps_[end].begin) best_.push_back(end);
    const int32_t unknown = tokenizer_.unk_;
    for (size_t i = best_.size(), begin = 0; i-- > 0;) {
      const int32_t id = steps_[best_[i]].id;
      // Unknown characters in a row are one token, and where they make a piece, that.
      while (id == unknown && i > 0 && steps_[best_[i - 1]].id == unknown) --i;
      const size_t end = best_[i];
      const int32_t found = id == unknown ? tokenizer_.vocabulary_.Id(word.substr(begin, end - begin)) : id;
      const bool is_piece = found >= 0 && static_cast<size_t>(found) < tokenizer_.scores_.size();
      out_.Push(is_piece ? found : unknown, type_, places_[begin].first, places_[end - 1].second);
      begin = end;
    }
  }

  struct Step {
    double score = 0;
    size_t begin = 0;  // of the piece that ends here
    int32_t id = -1;   // its id; −1: no way leads here
  };

  const UnigramTokenizer& tokenizer_;
  const int32_t type_;
  Encoding& out_;
  std::string bytes_;  // the word so far
  std::vector<std::pair<int32_t, int32_t>> places_;
  std::vector<Step> steps_;
  std::vector<size_t> best_;  // ends of the best pieces, the last first
};

UnigramTokenizer::UnigramTokenizer(UnigramModel model, std::string_view where, UnigramOptions options,
                                   TokenizerFiles files)
    : PieceTokenizer(std::move(model.pieces), std::move(files)),
      options_(std::move(options)),
      scores_(std::move(model.scores)) {
  unk_ = model.unk_id;
  unk_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view piece = vocabulary_.Token(id);
    if (!piece.empty() && vocabulary_.Id(piece) == id) pieces.emplace_back(piece, id);
  }
  trie_ = Trie(std::move(pieces));
  UseUnknownToken(Token(unk_), vocabulary_, options_);
  if (options_.unk.empty() || vocabulary_.Id(options_.unk) != unk_)
    Fail("{}: the unknown piece, number {}, is \"{}\", expected a piece that is there once", where, unk_,
         Shown(options_.unk));
  AddedTokenBuilder added(options_, vocabulary_, where);
  added.AddUnknown();
  sep_ = added.AddNamed({.content = options_.sep});
  pad_ = added.AddNamed({.content = options_.pad});
  cls_ = added.AddNamed({.content = options_.cls});
  mask_ = added.AddNamed({.content = options_.mask});
  ForgetAbsent(options_);
  const bool shifted = options_.tokenizer_class == TokenizerClass::kXlmRoberta;
  template_ = options_.around.value_or(shifted ? TextTemplate::Roberta(Id(options_.bos), Id(options_.eos))
                                               : TextTemplate::Bert(cls_, sep_));
  added_ = added.Build([&](const std::string& token) {
    NormalizedText text = OriginalText(token, 0);
    options_.normalizer.Normalize(text);
    return Utf8Of(text);
  });
}

bool UnigramTokenizer::ContinuesWord(int32_t id) const { return PieceContinuesWord(Token(id)); }

bool UnigramTokenizer::AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit,
                                    Encoding& out) const {
  Pieces pieces(*this, type, out);
  const size_t most = options_.normalizer.looks_at_ends() ? kWholeTextBytes : kStretchBytes;
  for (size_t at = 0; at < text.size();) {
    const std::string_view stretch = text.substr(at, StretchEnd(text, at, most) - at);
    NormalizedText normalized = OriginalText(stretch, first);
    options_.normalizer.Normalize(normalized);
    ForEachPart(added_, normalized, [&](const AddedToken* token, NormalizedSpan part) {
      if (token == nullptr) {
        pieces.AddText(part);
      } else {
        out.Push(token->id, type, part.front().begin, part.back().end);
      }
      return true;
    });
    if (out.ids.size() > limit) return true;
    first += static_cast<int32_t>(CountCodePoints(stretch));
    at += stretch.size();
  }
  return false;
}

// The file's decoder: ▁ is a space, and nothing in the first token; without one, tokens with spaces between.
std::string UnigramTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string symbol, text;
  AppendUtf8(kMetaspaceSymbol, symbol);
  bool first = true;
  for (const int32_t id : ids) {
    std::string token = Token(id);
    if (skip_special_tokens && IsSpecial(id)) continue;
    if (options_.decoder) {
      ReplaceAll(token, symbol, first && options_.decoder->prepend != Metaspace::Prepend::kNever ? "" : " ");
    } else if (!first) {
      text += ' ';
    }
    text += token;
    first = false;
  }
  if (options_.clean_up_spaces) CleanUpSpaces(text);
  return text;
}

void UnigramTokenizer::Save(const std::string& folder, int64_t max_length) const {
  Json config = TokenizerConfigJson(options_, added_.tokens());
  const TokenizerClass said = options_.tokenizer_class;
  if (said == TokenizerClass::kXlmRoberta) {
    config["add_prefix_space"] = options_.metaspace->prepend == Metaspace::Prepend::kAlways;
  } else {
    config["do_lower_case"] = options_.normalizer.lowercases();
    config["keep_accents"] = !options_.normalizer.strips_accents();
  }
  config["tokenizer_class"] = said == TokenizerClass::kAlbert       ? "AlbertTokenizer"
                              : said == TokenizerClass::kXlmRoberta ? "XLMRobertaTokenizer"
                                                                    : "PreTrainedTokenizerFast";
  SaveTokenizerFiles(folder, files_, options_, config, max_length);
}

}  // namespace lshformer
