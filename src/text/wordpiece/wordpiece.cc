#include "text/wordpiece/wordpiece.h"

#include <utility>

#include "base/error.h"
#include "text/added_token_builder.h"
#include "text/code_points.h"
#include "text/normalized_text.h"

namespace lshformer {
// Splits words into pieces by greedy longest match; a word that has no such split is one [UNK].
class WordPieceTokenizer::PieceSink final : public WordSink {
 public:
  PieceSink(const WordPieceTokenizer& tokenizer, int32_t type, size_t limit, Encoding& out)
      : tokenizer_(tokenizer), type_(type), limit_(limit), out_(out) {}

  bool Add(const Word& word) override {
    left_over_ = out_.ids.size() >= limit_;
    if (left_over_) return false;
    const size_t size = out_.ids.size();
    if (word.too_long || !AddPieces(word)) {
      out_.Resize(size);
      out_.Push(tokenizer_.unk_, type_, word.begin, word.end);
    }
    return true;
  }

  // A token that is found whole. Returns whether there was room for it.
  bool AddToken(int32_t id, int32_t begin, int32_t end) {
    left_over_ = out_.ids.size() >= limit_;
    if (!left_over_) out_.Push(id, type_, begin, end);
    return !left_over_;
  }

  bool left_over() const { return left_over_; }

 private:
  bool AddPieces(const Word& word) {
    const Trie* pieces = &tokenizer_.first_pieces_;
    for (size_t at = 0; at < word.text.size();) {
      const Trie::Match match = pieces->LongestPrefix(word.text.substr(at));
      if (match.value < 0) return false;
      out_.Push(match.value, type_, word.Origin(at), word.Origin(at + match.length - 1) + 1);
      at += match.length;
      pieces = &tokenizer_.next_pieces_;
    }
    return true;
  }

  const WordPieceTokenizer& tokenizer_;
  const int32_t type_;
  const size_t limit_;
  Encoding& out_;
  bool left_over_ = false;
};

WordPieceTokenizer::WordPieceTokenizer(Vocabulary vocabulary, std::string_view where, const WordPieceOptions& options,
                                       TokenizerFiles files)
    : PieceTokenizer(std::move(vocabulary), std::move(files)), options_(options) {
  if (vocabulary_.Id(options.unk) < 0) {
    Fail("{}: expected the unknown token \"{}\" among the {} tokens", where, Shown(options.unk), vocabulary_.size());
  }
  std::vector<std::pair<std::string_view, int32_t>> first, next;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view token = vocabulary_.Token(id);
    if (token.empty() || vocabulary_.Id(token) != id) continue;
    first.emplace_back(token, id);
    if (token.starts_with("##") && token.size() > 2) next.emplace_back(token.substr(2), id);
  }
  first_pieces_ = Trie(std::move(first));
  next_pieces_ = Trie(std::move(next));

  AddedTokenBuilder added(options, vocabulary_, where);
  unk_ = added.AddUnknown();
  sep_ = added.AddNamed({.content = options.sep});
  pad_ = added.AddNamed({.content = options.pad});
  cls_ = added.AddNamed({.content = options.cls});
  mask_ = added.AddNamed({.content = options.mask});
  ForgetAbsent(options_);
  template_ = options.around.value_or(TextTemplate::Bert(cls_, sep_));
  added_ =
      added.Build([&](const std::string& token) { return Utf8Of(NormalizeForBert(token, 0, options_.normalizer)); });
}

bool WordPieceTokenizer::AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit,
                                      Encoding& out) const {
  PieceSink sink(*this, type, limit, out);
  if (!added_.has_normalized()) {
    SplitWords(text, first, options_.normalizer, sink);
    return sink.left_over();
  }
  for (size_t at = 0; at < text.size() && !sink.left_over();) {
    const std::string_view stretch = text.substr(at, StretchEnd(text, at, kStretchBytes) - at);
    const NormalizedText normalized = NormalizeForBert(stretch, first, options_.normalizer);
    ForEachPart(added_, normalized, [&](const AddedToken* token, NormalizedSpan part) {
      return token == nullptr ? SplitNormalized(part, sink)
                              : sink.AddToken(token->id, part.front().begin, part.back().end);
    });
    first += static_cast<int32_t>(CountCodePoints(stretch));
    at += stretch.size();
  }
  return sink.left_over();
}

}  // namespace lshformer
