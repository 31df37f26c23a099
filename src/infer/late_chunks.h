// Late chunking: the vectors of a text's chunks, out of one pass over the whole text.
//
//   v(chunk) = the mean of the last hidden states of the chunk's own tokens
//
// then what a Sentence-Transformers folder has behind its pooling. So every token of a chunk has seen the whole text.
// A text beyond the model's length is read in passes of that length, each of which begins before the one before it has
// ended: of a token that two passes have, the state counts in whose pass it stands farther inside. Special tokens, and
// those of a prompt before the text, are in no chunk. Source: Günther et al., "Late chunking", 2024.
//
// Work memory: the states of some forward calls, and the tokens of the texts.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/passages/chunking.h"
#include "infer/pipeline.h"

namespace lshformer {

struct ChunkVector {
  CodePointSpan place;  // in the text
  std::vector<float> values;
};

struct ChunkQuery {
  using Answer = std::vector<ChunkVector>;  // in order of the text
  struct Pass {
    Encoding text;               // with what stands around a text
    size_t begin = 0;            // the first token of the text that it has
    size_t first = 0, last = 0;  // the tokens of the text whose states count, half-open
  };
  std::vector<Pass> passes;
  std::vector<TextChunk> chunks;
  EmbedOptions options;
};

// `chunks` says where the text is cut, not kNone; `spans`: of Chunking::kSpans. The pipeline is one of feature
// extraction. A pass has max_seq_length tokens where the pipeline reads whole texts, else as many as the model has
// positions.
Outcome<ChunkQuery> PrepareChunks(const Pipeline& pipeline, const std::string& text, const EmbedOptions& options,
                                  const ChunkOptions& chunks, std::span<const CodePointSpan> spans);
std::vector<Outcome<std::vector<ChunkVector>>> RunChunks(const Pipeline& pipeline, std::span<const ChunkQuery> queries);

}  // namespace lshformer
