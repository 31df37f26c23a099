#include "text/sentence_piece/sentence_piece.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "text/added_token_builder.h"
#include "text/clean_up.h"
#include "text/code_points.h"
#include "text/normalized_text.h"
#include "text/sentence_piece/chars_map.h"
#include "text/sentence_piece/library.h"
#include "text/sentence_piece/model.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

constexpr std::string_view kSpaceSymbol = "\u2581";

// A longer text is encoded in parts, since the library's memory is some 60 times the text: cut at a space. So is a word
// of more than kWordBytes, wherever that is, since the library's time for a run of unknown characters is quadratic.
constexpr size_t kWordBytes = size_t{8} << 10;

size_t EndOfStretch(std::string_view text, size_t begin, size_t most) {
  size_t space = begin;  // the last one
  for (size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (is_space && at - begin >= most) return at;
    if (is_space) space = at;
    if (at - space < kWordBytes) continue;
    if (space > begin) return space;
    while (!BeginsCodePoint(text[at])) --at;
    return at;
  }
  return text.size();
}

// As Python's str.isdigit.
bool IsDigit(char32_t c) {
  const int type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool EndsInCommaAfterDigit(std::string_view piece) {
  if (piece.size() < 2 || piece.back() != ',') return false;
  const char* next = piece.data() + PreviousCodePoint(piece, piece.size() - 1);
  return IsDigit(NextCodePoint(next));
}

std::string WithoutSpaceSymbols(std::string text) {
  ReplaceAll(text, kSpaceSymbol, "");
  return text;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const std::string& spiece, const std::string& where,
                                               const SentencePieceOptions& options, TokenizerFiles files)
    : SentencePieceTokenizer(ParseSentencePieceModel(spiece, where), where, options, std::move(files)) {}

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model, const std::string& where,
                                               const SentencePieceOptions& options, TokenizerFiles files)
    : PieceTokenizer(Vocabulary(std::move(model.pieces)), std::move(files)),
      options_(options),
      normalizer_(std::make_unique<CharsMap>(std::move(model.normalizer))),
      processor_(std::make_unique<SentencePieceLibraryModel>(model.serialized, where)),
      pieces_(vocabulary_.size()) {
  unk_ = model.unk_id;
  if (options_.unk.empty()) options_.unk = Token(unk_);
  if (options_.unk != Token(unk_)) {
    Fail("{}: expected the unknown token \"{}\", the model's is \"{}\"", where, Shown(options_.unk),
         Shown(Token(unk_)));
  }
  for (int32_t id = 0; id < pieces_; ++id) ends_in_comma_.push_back(EndsInCommaAfterDigit(Token(id)));
  AddedTokenBuilder added(options_, vocabulary_, where);
  // In the order in which HF looks for them: [CLS] and [SEP] are also the tokens of begin and end.
  cls_ = added.AddNamed({.content = options_.cls});
  sep_ = added.AddNamed({.content = options_.sep});
  added.AddNamed({.content = options_.unk});
  pad_ = added.AddNamed({.content = options_.pad});
  mask_ = added.AddNamed({.content = options_.mask, .lstrip = true});
  template_ = TextTemplate::Bert(cls_, sep_);
  added_ = added.Build([&](const std::string& token) { return AlbertText(token, 0, options_.text).text(); });
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

bool PieceContinuesWord(const std::string& piece) {
  const auto is_punctuation = [](char c) {
    return std::string_view("!\"#$%&()*+,-./:;?@[\\]^_`{|}~").find(c) != std::string_view::npos;
  };
  if (piece[0] == '<' || (piece.size() == 1 && is_punctuation(piece[0]))) return false;
  return std::all_of(piece.begin(), piece.end(),
                     [&](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_punctuation(c); });
}

bool SentencePieceTokenizer::AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit,
                                          Encoding& out) const {
  // Where ▁ is unknown as well, all unknown words are one run.
  const size_t most = vocabulary_.Id(kSpaceSymbol) >= 0 ? kStretchBytes : kWordBytes;
  for (size_t at = 0; at < text.size();) {
    const std::string_view stretch = text.substr(at, EndOfStretch(text, at, most) - at);
    const size_t before = out.ids.size();
    AppendStretch(stretch, first, type, out);
    // The white space before a stretch belongs to its first piece, as it does inside one.
    if (at > 0 && out.ids.size() > before) out.offsets[before].first = first;
    if (out.ids.size() > limit) return true;
    first += static_cast<int32_t>(CountCodePoints(stretch));
    at += stretch.size();
  }
  return false;
}

void SentencePieceTokenizer::AppendStretch(std::string_view original, int32_t first, int32_t type,
                                           Encoding& out) const {
  const AlbertText text(original, first, options_.text);
  if (!added_.has_normalized()) return AppendPart(text, 0, text.text().size(), type, out);
  AddedTokens::Match match;
  for (size_t at = 0;;) {
    match = added_.FindNormalized(text.text(), match);
    if (match.begin > at) AppendPart(text, at, match.begin, type, out);
    if (match.token == nullptr) return;
    const auto [from, to] = text.Origin(match.begin, match.end);
    out.Push(match.token->id, type, from, to);
    at = match.end;
  }
}

void SentencePieceTokenizer::AppendPart(const AlbertText& text, size_t part_begin, size_t part_end, int32_t type,
                                        Encoding& out) const {
  const std::vector<LibraryPiece> pieces =
      processor_->Encode(std::string_view(text.text()).substr(part_begin, part_end - part_begin));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [piece, id, piece_begin, piece_end] = pieces[i];
    const size_t begin = part_begin + piece_begin;
    size_t end = part_begin + piece_end;
    if (id == unk_ ? EndsInCommaAfterDigit(piece) : ends_in_comma_[static_cast<size_t>(id)]) {
      AppendSplit(piece, text, begin, end, type, out);
      continue;
    }
    // Of the pieces that one character is replaced by the library gives it to the last alone. The ▁ that it puts before
    // every text comes from nothing.
    if (begin == end && begin < part_end && (i > 0 || piece != kSpaceSymbol)) ++end;
    const auto [from, to] = text.Origin(begin, end);
    out.Push(id, type, from, to);
  }
}

int32_t SentencePieceTokenizer::IdOrUnknown(std::string_view piece) const {
  const int32_t id = vocabulary_.Id(piece);
  return id >= 0 && id < pieces_ ? id : unk_;
}

std::vector<SentencePieceTokenizer::Part> SentencePieceTokenizer::SplitBeforeComma(const std::string& piece) const {
  const std::string number = WithoutSpaceSymbols(piece.substr(0, piece.size() - 1));
  const std::vector<LibraryPiece> pieces = processor_->Encode(number);
  std::vector<Part> parts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string& part = pieces[i].piece;
    const std::string bare = WithoutSpaceSymbols(part);
    int32_t id = pieces[i].id;
    if (i == 0 && !piece.starts_with(kSpaceSymbol) && part.starts_with(kSpaceSymbol)) {
      // The ▁ that encoding puts before every text.
      const std::string rest = part.substr(kSpaceSymbol.size());
      if (rest.empty()) continue;
      id = IdOrUnknown(rest);
    }
    parts.push_back({id, bare.size()});
  }
  parts.push_back({IdOrUnknown(","), 1});
  return parts;
}

void SentencePieceTokenizer::AppendSplit(const std::string& piece, const AlbertText& text, size_t begin, size_t end,
                                         int32_t type, Encoding& out) const {
  // The library says where a piece came from, not where its characters did: normalise it once more.
  std::string normalized;
  std::vector<std::pair<size_t, size_t>> sources;  // [bytes of normalized], bytes of the text
  for (size_t at = begin; at < end;) {
    const std::string_view rest = std::string_view(text.text()).substr(at, end - at);
    CharsMap::Match match = normalizer_->LongestPrefix(rest);
    if (match.length == 0) {
      const char* next = rest.data();
      NextCodePoint(next);
      match.length = static_cast<size_t>(next - rest.data());
      match.replacement = rest.substr(0, match.length);
    }
    std::string bare = WithoutSpaceSymbols(std::string(match.replacement));
    std::erase(bare, ' ');
    normalized += bare;
    sources.resize(normalized.size(), {at, at + match.length});
    at += match.length;
  }
  const std::vector<Part> parts = SplitBeforeComma(piece);
  // User-defined pieces are not normalised, and one character may be in two pieces: then each part has all there is.
  const bool aligned = normalized == WithoutSpaceSymbols(piece);
  size_t done = 0, from = begin;
  for (const Part& part : parts) {
    size_t to = end;
    if (aligned && done + part.bytes <= sources.size()) {
      to = part.bytes > 0 ? sources[done + part.bytes - 1].second : sources[done].first;
      if (part.bytes > 0) from = std::min(from, sources[done].first);
    }
    const auto [first, last] = text.Origin(from, to);
    out.Push(part.id, type, first, last);
    done += part.bytes;
    if (aligned) from = to;
  }
}

std::string SentencePieceTokenizer::DecodePieces(const std::vector<int>& ids) const {
  return ids.empty() ? "" : processor_->Decode(ids);
}

// As HF's convert_tokens_to_string: special tokens as they are, what lies between them by the library, a space before a
// special token that follows a piece.
std::string SentencePieceTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string text;
  std::vector<int> run;
  bool after_special = false;
  for (const int32_t id : ids) {
    const std::string& token = Token(id);
    const bool special = IsSpecial(id);
    if (special && skip_special_tokens) continue;
    const bool verbatim = special || id >= pieces_;
    if (verbatim) {
      if (!after_special) text += ' ';
      text += DecodePieces(run) + token;
      run.clear();
    } else {
      run.push_back(id);
    }
    after_special = verbatim;
  }
  text += DecodePieces(run);
  const size_t begin = std::min(text.find_first_not_of(" \t\n\r\v\f"), text.size());
  text = text.substr(begin, text.find_last_not_of(" \t\n\r\v\f") + 1 - begin);
  if (options_.clean_up_spaces) CleanUpSpaces(text);
  return text;
}

}  // namespace lshformer
