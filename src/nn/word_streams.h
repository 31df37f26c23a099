// The streams of a model of words: a batch's contexts and questions are places in one list of its distinct words.
//
//   tokens              contexts, sequence b = the out-of-vocabulary word (the place of no answer), then the words
//   further_streams[0]  questions: the out-of-vocabulary word, then the words
//   further_streams[1]  words: one sequence, the batch's distinct words as ids of the vocabulary
//   further_streams[2]  characters: one sequence a distinct word
//
// Ids of the first two are places in the third. What looks at a word alone is computed once for each distinct word, and
// gathered: a batch of 64 SQuAD contexts has 10 words for each that is distinct.
#pragma once
#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "nn/forward_context.h"

namespace lshformer {

struct WordStreams {
  explicit WordStreams(const PackedBatch& batch);  // the batch has them (CheckStreams) and outlives this
  const TokenStream &context, &question, &words, &characters;
};

// The distinct words as rows for dropout. A row's identity is the word's id and characters, not its place: a word's
// mask, which all its occurrences in a batch share (Gal and Ghahramani 2016, "word dropout"), does not depend on what
// else is in the batch.
ForwardContext ContextOfWords(const WordStreams& streams, const ForwardContext& context);

// The contexts and, behind them, the questions as one stream of 2 · B sequences, for layers that both go through with
// the same weights: context.Over(stream, sequence_ids) is what they are told.
struct ContextsAndQuestions {
  TokenStream stream;                  // ids: places in the list of words
  std::vector<uint64_t> sequence_ids;  // [2 · B]; a question's differs from its context's

  // context: over the batch's contexts.
  ContextsAndQuestions(const WordStreams& streams, const ForwardContext& context);
};

}  // namespace lshformer
