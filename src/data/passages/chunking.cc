#include "data/passages/chunking.h"

#include <algorithm>

#include "base/error.h"
#include "data/json_rows.h"
#include "text/code_points.h"
#include "text/sentences.h"

namespace lshformer {
namespace {

std::vector<TextChunk> ChunksOfTokens(const Encoding& tokens, const Tokenizer& tokenizer, int64_t most) {
  std::vector<TextChunk> chunks;
  for (size_t begin = 0, end = 0; begin < tokens.ids.size(); begin = end) {
    end = EndOfWords(tokens, begin, static_cast<size_t>(most), tokenizer);
    chunks.push_back({{tokens.offsets[begin].first, tokens.offsets[end - 1].second}, begin, end});
  }
  return chunks;
}

std::vector<CodePointSpan> SentencesOf(std::string_view text) {
  std::vector<CodePointSpan> places;
  const char* at = text.data();
  int64_t code_points = 0;
  for (const std::string_view sentence : SplitSentences(text)) {
    code_points += CountCodePoints({at, static_cast<size_t>(sentence.data() - at)});
    const int64_t begin = code_points;
    code_points += CountCodePoints(sentence);
    at = sentence.data() + sentence.size();
    places.emplace_back(static_cast<int32_t>(begin), static_cast<int32_t>(code_points));
  }
  return places;
}

void CheckSpans(std::string_view text, std::span<const CodePointSpan> spans) {
  const int64_t size = CountCodePoints(text);
  int32_t end = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto [first, last] = spans[i];
    if (first < 0 || last > size || first >= last)
      Fail("\"spans\"[{}]: [{}, {}] is not inside the text, of {} code points", i, first, last, size);
    if (first < end)
      Fail("\"spans\"[{}]: [{}, {}] begins before the end of the one before it, {}", i, first, last, end);
    end = last;
  }
}

}  // namespace

std::vector<CodePointSpan> SpansOf(const Json& list, std::string_view place) {
  const auto is_place = [](const Json& value) { return value.is_number_integer() && value >= 0 && value <= INT32_MAX; };
  if (!list.is_array()) Fail("{}: expected a list of [start, end], got {}", place, ShownValue(list));
  std::vector<CodePointSpan> spans;
  for (const Json& span : list) {
    if (!span.is_array() || span.size() != 2)
      Fail("{}[{}]: expected [start, end], got {}", place, spans.size(), ShownValue(span));
    for (const Json& end : span)
      if (!is_place(end))
        Fail("{}[{}]: expected whole numbers from 0 to {}, got {}", place, spans.size(), INT32_MAX, ShownValue(end));
    spans.emplace_back(span[0].get<int32_t>(), span[1].get<int32_t>());
  }
  return spans;
}

std::vector<CodePointSpan> ReadSpans(const Json& object, std::string_view where) {
  const std::string place = fmt::format("{}: \"spans\"", where);
  const Json& list = GetList(object, "spans", where);
  if (list.empty()) Fail("{}: expected one or more, got an empty list", place);
  return SpansOf(list, place);
}

size_t EndOfWords(const Encoding& tokens, size_t begin, size_t most, const Tokenizer& tokenizer) {
  const size_t full = std::min(begin + most, tokens.ids.size());
  size_t end = full;
  if (end == tokens.ids.size()) return end;
  while (end > begin && tokenizer.ContinuesWord(tokens.ids[end])) --end;
  return end > begin ? end : full;
}

std::vector<TextChunk> ChunksOf(std::string_view text, const Encoding& tokens, const Tokenizer& tokenizer,
                                const ChunkOptions& options, std::span<const CodePointSpan> spans) {
  if (options.chunking == Chunking::kTokens) return ChunksOfTokens(tokens, tokenizer, options.chunk_tokens);
  const bool given = options.chunking == Chunking::kSpans;
  if (given) CheckSpans(text, spans);
  const std::vector<CodePointSpan> places =
      given ? std::vector<CodePointSpan>(spans.begin(), spans.end()) : SentencesOf(text);
  std::vector<TextChunk> chunks;
  size_t token = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const CodePointSpan& place = places[i];
    while (token < tokens.ids.size() && tokens.offsets[token].first < place.first) ++token;
    TextChunk chunk{place, token, token};
    while (token < tokens.ids.size() && tokens.offsets[token].first < place.second) ++token;
    chunk.last = token;
    if (chunk.last > chunk.first)
      chunks.push_back(chunk);
    else if (given)
      Fail("\"spans\"[{}]: [{}, {}] has no tokens", i, place.first, place.second);
  }
  return chunks;
}

}  // namespace lshformer
