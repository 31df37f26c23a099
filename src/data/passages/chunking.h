// Where a text is cut into chunks, each with a vector of its own.
//
//   tokens      chunk_tokens of them, less where the next token goes on with a word that fits into the next chunk
//   sentences   text/sentences.h
//   spans       those that are given
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace lshformer {

enum class Chunking { kNone, kTokens, kSentences, kSpans };
inline const std::vector<std::string> kChunkingNames{"none", "tokens", "sentences", "spans"};  // in order of the values

struct ChunkOptions {
  Chunking chunking = Chunking::kNone;
  int64_t chunk_tokens = 256;
};

using CodePointSpan = std::pair<int32_t, int32_t>;  // half-open

// [[start, end], …] in whole numbers. Error beginning with `place`, which says what the list is called.
std::vector<CodePointSpan> SpansOf(const Json& list, std::string_view place);
// Those of an object's "spans", one at least. Error naming `where`.
std::vector<CodePointSpan> ReadSpans(const Json& object, std::string_view where);

struct TextChunk {
  CodePointSpan place;         // in the text
  size_t first = 0, last = 0;  // its tokens, half-open
};

// Where a chunk of at most `most` tokens ends that begins at token `begin`: behind its last whole word, if it has one.
size_t EndOfWords(const Encoding& tokens, size_t begin, size_t most, const Tokenizer& tokenizer);

// The chunks of a text with these tokens, which are its own without special ones, in order. A token belongs to the
// chunk where it begins. Sentences without a token are left out. Errors begin with `"spans"`: a span outside the text,
// empty, or before the end of the one before it; one without a token.
std::vector<TextChunk> ChunksOf(std::string_view text, const Encoding& tokens, const Tokenizer& tokenizer,
                                const ChunkOptions& options, std::span<const CodePointSpan> spans);

}  // namespace lshformer
