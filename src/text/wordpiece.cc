#include "text/wordpiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

// Where a range [0, n) and another [0, m) are cut so that both together have at most `room`: HF's longest_first.
std::pair<size_t, size_t> LongestFirst(size_t n, size_t m, size_t room) {
  if (n + m <= room) return {n, m};
  const bool swapped = n > m;
  size_t shorter = std::min(n, m);
  size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return swapped ? std::pair{longer, shorter} : std::pair{shorter, longer};
}

void Resize(Encoding& encoding, size_t size) {
  encoding.ids.resize(size);
  encoding.type_ids.resize(size);
  encoding.offsets.resize(size);
}

void Cut(Encoding& encoding, size_t size) {
  if (encoding.ids.size() <= size) return;
  Resize(encoding, size);
  encoding.truncated = true;
}

void Push(Encoding& encoding, int32_t id, int32_t type, int32_t begin, int32_t end) {
  encoding.ids.push_back(id);
  encoding.type_ids.push_back(type);
  encoding.offsets.emplace_back(begin, end);
}

void Append(Encoding& encoding, const Encoding& tail) {
  encoding.ids.insert(encoding.ids.end(), tail.ids.begin(), tail.ids.end());
  encoding.type_ids.insert(encoding.type_ids.end(), tail.type_ids.begin(), tail.type_ids.end());
  encoding.offsets.insert(encoding.offsets.end(), tail.offsets.begin(), tail.offsets.end());
  encoding.truncated = encoding.truncated || tail.truncated;
}

}  // namespace

// Splits words into pieces by greedy longest match; a word that has no such split is one [UNK].
class WordPieceTokenizer::PieceSink final : public WordSink {
 public:
  PieceSink(const WordPieceTokenizer& tokenizer, int32_t type, size_t limit, Encoding& out)
      : tokenizer_(tokenizer), type_(type), limit_(limit), out_(out) {}

  bool Add(const Word& word) override {
    if (Stopped()) return false;
    const size_t size = out_.ids.size();
    if (word.too_long || !AddPieces(word)) {
      Resize(out_, size);
      Push(out_, tokenizer_.unk_, type_, word.begin, word.end);
    }
    return true;
  }

  // Whether no more tokens are wanted. Asked only when there is one more.
  bool Stopped() {
    left_over_ = left_over_ || out_.ids.size() >= limit_;
    return left_over_;
  }
  bool left_over() const { return left_over_; }

 private:
  bool AddPieces(const Word& word) {
    const Trie* pieces = &tokenizer_.first_pieces_;
    for (size_t at = 0; at < word.text.size();) {
      const Trie::Match match = pieces->LongestPrefix(word.text.substr(at));
      if (match.value < 0) return false;
      Push(out_, match.value, type_, word.Origin(at), word.Origin(at + match.length - 1) + 1);
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

  std::vector<AddedToken> added;
  const auto add = [&](AddedToken token) {
    token.id = vocabulary_.Add(token.content);
    const auto same = std::find_if(added.begin(), added.end(),
                                   [&](const AddedToken& other) { return other.content == token.content; });
    if (same == added.end()) added.push_back(token);
    return token.id;
  };
  for (const AddedToken& token : options.added) {
    const int32_t id = add(token);
    if (token.id >= 0 && token.id != id) {
      Fail("{}: token \"{}\" has id {} in the vocabulary, but {} in {}", where, Shown(token.content), id, token.id,
           options.added_from);
    }
  }
  unk_ = add({.content = options.unk});
  sep_ = add({.content = options.sep});
  pad_ = add({.content = options.pad});
  cls_ = add({.content = options.cls});
  mask_ = add({.content = options.mask});
  added_ = AddedTokens(std::move(added));
}

const std::string& WordPieceTokenizer::Token(int32_t id) const {
  if (id < 0 || id >= vocab_size()) Fail("token id: expected 0 to {}, got {}", vocab_size() - 1, id);
  return vocabulary_.Token(id);
}

bool WordPieceTokenizer::AppendPieces(std::string_view text, int32_t type, size_t limit, Encoding& out) const {
  const size_t expected = out.ids.size() + std::min(text.size() / 4 + 8, limit);
  out.ids.reserve(expected);
  out.type_ids.reserve(expected);
  out.offsets.reserve(expected);
  PieceSink sink(*this, type, limit, out);
  int32_t index = 0;
  const auto count = [](std::string_view part) {
    return static_cast<int32_t>(std::count_if(part.begin(), part.end(), BeginsCodePoint));
  };
  for (size_t at = 0; at < text.size();) {
    const AddedTokens::Match match = added_.Find(text, at);
    if (match.begin > at) {
      index = SplitWords(text.substr(at, match.begin - at), index, options_.normalizer, sink);
      if (index < 0) return true;
    }
    if (match.token == nullptr || sink.Stopped()) break;
    const int32_t end = index + count(text.substr(match.begin, match.end - match.begin));
    Push(out, match.token->id, type, index, end);
    index = end;
    at = match.end;
  }
  return sink.left_over();
}

Encoding WordPieceTokenizer::Encode(std::string_view text, std::string_view pair, const EncodeOptions& options) const {
  constexpr size_t kMaxText = std::numeric_limits<int32_t>::max();  // offsets are int32
  for (const std::string_view part : {text, pair}) {
    if (part.size() > kMaxText) Fail("text: expected at most {} bytes, got {}", kMaxText, part.size());
    if (!IsValidUtf8(part)) Fail("text: expected UTF-8");
  }
  const bool has_pair = !pair.empty();
  const int specials = !options.add_special_tokens ? 0 : has_pair ? 3 : 2;
  if (options.max_length < 0 || (options.max_length > 0 && options.max_length < specials)) {
    Fail("maximal length: expected at least {}, the number of special tokens, got {}", specials, options.max_length);
  }
  const auto lead = static_cast<size_t>(options.add_special_tokens);
  const size_t room = options.max_length > 0 ? static_cast<size_t>(options.max_length - specials) : kMaxText;
  Encoding first, second;
  if (options.add_special_tokens) Push(first, cls_, 0, 0, 0);
  // How a pair is cut depends on the lengths of both, so there both are tokenised to their ends.
  first.truncated = AppendPieces(text, 0, has_pair ? kMaxText : room + lead, first);
  if (has_pair) second.truncated = AppendPieces(pair, 1, kMaxText, second);
  const auto [first_size, second_size] = LongestFirst(first.ids.size() - lead, second.ids.size(), room);
  Cut(first, first_size + lead);
  Cut(second, second_size);
  if (options.add_special_tokens) Push(first, sep_, 0, 0, 0);
  if (has_pair) {
    Append(first, second);
    if (options.add_special_tokens) Push(first, sep_, 1, 0, 0);
  }
  return first;
}

void CheckMaxSeqLength(int64_t max_seq_length, int texts, int64_t positions) {
  const int least = 2 * texts + 1;
  if (max_seq_length >= least && (positions == 0 || max_seq_length <= positions)) return;
  const std::string range = positions > 0 ? fmt::format("{} to {} (max_position_embeddings)", least, positions)
                                          : fmt::format("at least {}", least);
  FailOption("max_seq_length", "expected {}, got {}", range, max_seq_length);
}

std::vector<Encoding> EncodeAll(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                const std::vector<std::string>& pairs, const EncodeOptions& options) {
  if (!pairs.empty() && pairs.size() != texts.size()) {
    Fail("pairs: expected as many as texts, {}, got {}", texts.size(), pairs.size());
  }
  std::vector<Encoding> encodings(texts.size());
  ParallelFor(static_cast<int64_t>(texts.size()), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      encodings[i] = tokenizer.Encode(texts[i], pairs.empty() ? std::string_view{} : pairs[i], options);
    }
  });
  return encodings;
}

}  // namespace lshformer
