// A question and a context of any length as sequences that a model can take:
//
//   [CLS] question [SEP] excerpt of the context [SEP]        types 0 … 0 1 … 1
//
// (what stands around them is the tokenizer's template of two texts, text/text_template.h) as HF's run_qa.py cuts them:
// the question is not cut unless that is asked for; excerpts of the same size follow one another with doc_stride tokens
// in common, until one reaches the end of the context; of a tokenizer that cuts beginnings (truncates_left()) they are
// laid from the end. Models that read words have the question apart from the sequence, each behind the start word
// (data/words.h):
//
//   start excerpt of the context        start question
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/sequence_set.h"
#include "data/squad.h"
#include "text/tokenizer.h"

namespace lshformer {

struct ExcerptOptions {
  int max_seq_length = 384;
  int doc_stride = -1;       // −1: a third of max_seq_length, at most 128 (HF's value, which suits its 384)
  int max_query_length = 0;  // tokens of a question that are read, the first ones (last, of truncates_left()); 0: all
};
int DocStride(const ExcerptOptions& options);
// Leaves of a question's tokens those that are read.
void CutQuestion(const ExcerptOptions& options, const Tokenizer& tokenizer, std::vector<int32_t>& ids);

using TokenPlaces = std::vector<std::pair<int32_t, int32_t>>;  // code points, half-open, of each token

struct ContextExcerpt {
  int32_t begin = 0, end = 0;  // tokens of the context
};

// What stands around the context in an excerpt's sequence.
struct ExcerptLayout {
  bool apart = false;     // the question is not in it
  int64_t first = 0;      // place of the context's first token
  int64_t others = 0;     // tokens that are not the context's
  bool from_end = false;  // the last excerpt is full, the first one may not be
};
ExcerptLayout LayoutOf(const Tokenizer& tokenizer, int64_t question_tokens);

// The excerpts of a context of `context_tokens` ≥ 1. Error if the context has to be cut and the question leaves no more
// than doc_stride tokens for it, or, apart from it, is itself longer than max_seq_length.
std::vector<ContextExcerpt> CutContext(int64_t question_tokens, int64_t context_tokens, const ExcerptLayout& layout,
                                       const ExcerptOptions& options);

// The sequence; its token LayoutOf(…).first + i is token excerpt.begin + i of the context. Of a tokenizer with
// characters question and context are numbers of a DistinctWords.
struct ExcerptSequence {
  std::vector<int32_t> ids, type_ids;
  std::vector<int32_t> question;  // where it stands apart
};
ExcerptSequence MakeExcerpt(std::span<const int32_t> question, std::span<const int32_t> context,
                            const ContextExcerpt& excerpt, const Tokenizer& tokenizer);

// First and last token of the answer in the sequence: the last token that begins at or before it and the first one that
// ends at or after it. {0, 0}, that is [CLS], if there is no answer or the excerpt does not hold all of it. (HF's
// script gives the [SEP] behind, or padding, as the start of an answer that begins in an excerpt's last token; this
// does not.)
std::pair<int32_t, int32_t> LabelExcerpt(const SquadQuestion& question, const TokenPlaces& places,
                                         const ContextExcerpt& excerpt, int32_t first);

struct SquadExcerpt {
  int32_t question = 0;  // index into SquadData::questions
  int32_t first = 0;     // place in the sequence of the excerpt's first token
  ContextExcerpt tokens;
};

// Excerpts of all questions in their order, with the spans of the first answers as labels.
struct SquadExcerpts {
  bool keep_places = false;  // needed to turn tokens into text
  SequenceSet set;
  std::vector<SquadExcerpt> excerpts;  // [set.size()]
  std::vector<TokenPlaces> places;     // [contexts], where kept
  int64_t within_words = 0;  // of a tokenizer of words: questions whose first answer begins or ends inside a word
};
// Encodes on all cores, some MiB of text at a time. Error naming file and question: no tokens, a question that is too
// long for CutContext.
void AddSquadExcerpts(const SquadData& data, const Tokenizer& tokenizer, const ExcerptOptions& options,
                      SquadExcerpts& excerpts);

// Takes the white space that a token begins with out of its place: SentencePiece counts the space before a word to the
// word, of an answer it is no part.
void TrimPlaces(std::string_view text, TokenPlaces& places);

// ids and places without special tokens around them.
Encoding EncodeBare(const Tokenizer& tokenizer, std::string_view text);

}  // namespace lshformer
