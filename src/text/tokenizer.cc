#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "text/added_tokens.h"
#include "text/code_points.h"
#include "text/unicode.h"
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

// Cuts what follows the first `lead` tokens to `size`, at its beginning or its end.
void Cut(Encoding& encoding, size_t lead, size_t size, bool left) {
  const size_t has = encoding.ids.size() - lead;
  if (has <= size) return;
  left ? encoding.Remove(lead, has - size) : encoding.Resize(lead + size);
  encoding.truncated = true;
}

void Append(Encoding& encoding, const Encoding& tail) {
  encoding.ids.insert(encoding.ids.end(), tail.ids.begin(), tail.ids.end());
  encoding.type_ids.insert(encoding.type_ids.end(), tail.type_ids.begin(), tail.type_ids.end());
  encoding.offsets.insert(encoding.offsets.end(), tail.offsets.begin(), tail.offsets.end());
  if (!tail.cu_characters.empty()) {
    const auto before = static_cast<int32_t>(encoding.characters.size());
    if (encoding.cu_characters.empty()) encoding.cu_characters.push_back(0);
    for (size_t i = 1; i < tail.cu_characters.size(); ++i)
      encoding.cu_characters.push_back(before + tail.cu_characters[i]);
    encoding.characters.insert(encoding.characters.end(), tail.characters.begin(), tail.characters.end());
  }
  encoding.truncated = encoding.truncated || tail.truncated;
}

}  // namespace

void Encoding::Remove(size_t lead, size_t count) {
  const auto erase = [&](auto& values) {
    const auto begin = values.begin() + static_cast<int64_t>(lead);
    values.erase(begin, begin + static_cast<int64_t>(count));
  };
  erase(ids);
  erase(type_ids);
  erase(offsets);
  if (cu_characters.empty()) return;
  const int32_t gone = cu_characters[count];
  characters.erase(characters.begin(), characters.begin() + gone);
  cu_characters.erase(cu_characters.begin(), cu_characters.begin() + static_cast<int64_t>(count));
  for (int32_t& end : cu_characters) end -= gone;
}

bool Tokenizer::IsSpecial(int32_t id) const { return added_tokens().IsSpecial(id); }

bool Tokenizer::AppendText(std::string_view text, int32_t type, size_t limit, Encoding& out) const {
  const size_t expected = out.ids.size() + std::min(text.size() / 4 + 8, limit);
  out.ids.reserve(expected);
  out.type_ids.reserve(expected);
  out.offsets.reserve(expected);
  int32_t index = 0;
  AddedTokens::Match match;
  for (size_t at = 0;;) {
    match = added_tokens().Find(text, match);
    if (match.begin > at) {
      const std::string_view part = text.substr(at, match.begin - at);
      if (AppendPieces(part, index, type, limit, out)) return true;
      index += static_cast<int32_t>(CountCodePoints(part));
    } else {
      index -= static_cast<int32_t>(CountCodePoints(text.substr(match.begin, at - match.begin)));
    }
    if (match.token == nullptr) break;
    if (out.ids.size() >= limit) return true;
    const auto end = index + static_cast<int32_t>(CountCodePoints(text.substr(match.begin, match.end - match.begin)));
    out.Push(match.token->id, type, index, end);
    index = end;
    at = match.end;
  }
  return false;
}

std::string Tokenizer::LowerCased(std::string_view text) const {
  std::string out;
  AddedTokens::Match match;
  for (size_t at = 0;; at = std::max(at, match.end)) {
    match = added_tokens().Find(text, match);
    const char* next = text.data() + at;
    while (next < text.data() + match.begin) {
      char32_t lower[kMaxMapping];
      const int count = Lowercase(NextCodePoint(next), lower);
      for (int i = 0; i < count; ++i) AppendUtf8(lower[i], out);
    }
    if (match.token == nullptr) break;
    const size_t from = std::max(at, match.begin);
    if (match.end > from) out += text.substr(from, match.end - from);
  }
  return out;
}

Encoding Tokenizer::Encode(std::string_view text, std::optional<std::string_view> pair,
                           const EncodeOptions& options) const {
  constexpr size_t kMaxText = std::numeric_limits<int32_t>::max();  // offsets are int32
  for (const std::string_view part : {text, pair.value_or("")}) {
    if (part.size() > kMaxText) Fail("text: expected at most {} bytes, got {}", kMaxText, part.size());
    if (!IsValidUtf8(part)) Fail("text: expected UTF-8");
  }
  std::string lower_text, lower_pair;
  if (options.lower_case) {
    text = lower_text = LowerCased(text);
    if (pair) pair = lower_pair = LowerCased(*pair);
  }
  const TextTemplate::Form& form = text_template().Of(pair ? 2 : 1);
  const size_t around = options.add_special_tokens ? form.tokens() : 0;
  if (options.max_length < 0 || (options.max_length > 0 && static_cast<size_t>(options.max_length) < around))
    Fail("maximal length: expected at least {}, the number of special tokens, got {}", around, options.max_length);
  const size_t room = options.max_length > 0 ? static_cast<size_t>(options.max_length) - around : kMaxText;
  Encoding first, second;
  const auto put = [&](const std::vector<TextTemplate::Token>& tokens) {
    if (options.add_special_tokens)
      for (const TextTemplate::Token& token : tokens) first.Push(token.id, token.type, 0, 0);
  };
  put(form.before);
  const size_t lead = first.ids.size();
  // How a pair is cut depends on the lengths of both, so there both are tokenised to their ends; so is a text that
  // keeps its end.
  const bool left = truncates_left();
  first.truncated = AppendText(text, form.first_type, pair || left ? kMaxText : room + lead, first);
  if (pair) second.truncated = AppendText(*pair, form.second_type, kMaxText, second);
  const auto [first_size, second_size] = LongestFirst(first.ids.size() - lead, second.ids.size(), room);
  Cut(first, lead, first_size, left);
  Cut(second, 0, second_size, left);
  FinishPlaces(text, lead, first);
  put(form.between);
  if (pair) {
    FinishPlaces(*pair, 0, second);
    Append(first, second);
  }
  put(form.after);
  return first;
}

int64_t ShortestSeqLength(int texts, const Tokenizer* tokenizer) {
  const size_t around = tokenizer != nullptr ? tokenizer->text_template().Of(texts).tokens()
                                             : TextTemplate::Bert(0, 0).Of(texts).tokens();
  return std::max<int64_t>(2 * texts + 1, static_cast<int64_t>(around) + texts);
}

void CheckMaxSeqLength(int64_t max_seq_length, int texts, const Tokenizer* tokenizer, int64_t positions) {
  const int64_t least = ShortestSeqLength(texts, tokenizer);
  if (max_seq_length >= least && (positions == 0 || max_seq_length <= positions)) return;
  const std::string range = positions > 0 ? fmt::format("{} to {} (max_position_embeddings)", least, positions)
                                          : fmt::format("at least {}", least);
  const bool longer = positions > 0 && max_seq_length > positions;
  FailOption("max_seq_length", "expected {}, got {}{}", range, max_seq_length,
             longer ? fmt::format("; convert extends a checkpoint's ({})", OptionName{"extend_positions"}) : "");
}

std::vector<Encoding> EncodeAll(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                const std::vector<std::optional<std::string>>& pairs, const EncodeOptions& options) {
  if (!pairs.empty() && pairs.size() != texts.size()) {
    Fail("pairs: expected as many as texts, {}, got {}", texts.size(), pairs.size());
  }
  std::vector<Encoding> encodings(texts.size());
  ParallelFor(static_cast<int64_t>(texts.size()), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::optional<std::string_view> pair;
      if (!pairs.empty() && pairs[i]) pair = *pairs[i];
      encodings[i] = tokenizer.Encode(texts[i], pair, options);
    }
  });
  return encodings;
}

}  // namespace lshformer
