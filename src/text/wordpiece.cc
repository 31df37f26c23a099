#include "text/wordpiece.h"

#include <utility>

#include "base/error.h"
#include "text/added_token_builder.h"

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

WordPieceTokenizer::WordPieceTokenizer(std::string_view vocab_txt, std::string_view where,
                                       const WordPieceOptions& options, TokenizerFiles files)
    : options_(options), files_(std::move(files)), vocabulary_(vocab_txt, where) {
  if (vocabulary_.Id(options.unk) < 0) {
    Fail("{}: expected the unknown token \"{}\" among the {} tokens", where, Shown(options.unk), vocabulary_.size());
  }
  std::vector<std::pair<std::string_view, int32_t>> first, next;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view token = vocabulary_.Token(id);
    first.emplace_back(token, id);
    if (token.starts_with("##") && token.size() > 2) next.emplace_back(token.substr(2), id);
  }
  first_pieces_ = Trie(std::move(first));
  next_pieces_ = Trie(std::move(next));

  AddedTokenBuilder added(options, vocabulary_, where);
  unk_ = added.Add({.content = options.unk});
  sep_ = added.Add({.content = options.sep});
  pad_ = added.Add({.content = options.pad});
  cls_ = added.Add({.content = options.cls});
  mask_ = added.Add({.content = options.mask});
  added_ = added.Build();
}

const std::string& WordPieceTokenizer::Token(int32_t id) const {
  if (id < 0 || id >= vocab_size()) Fail("token id: expected 0 to {}, got {}", vocab_size() - 1, id);
  return vocabulary_.Token(id);
}

bool WordPieceTokenizer::AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit,
                                      Encoding& out) const {
  PieceSink sink(*this, type, limit, out);
  SplitWords(text, first, options_.normalizer, sink);
  return sink.left_over();
}

}  // namespace lshformer
