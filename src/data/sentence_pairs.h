// Pairs of text for the second loss of pretraining, made as the create_pretraining_data.py of BERT and of ALBERT make
// them.
//
//   [CLS] A [SEP] B [SEP], types 0 up to and including the first [SEP], then 1
//   label 0: B is what follows A in its document
//   label 1: next-sentence prediction: B is from another document
//            sentence-order prediction: the two are swapped, A is what follows B
//
// Per document a target length is drawn: max_seq_length − 3, or with probability short_seq_prob uniform in
// [2, max_seq_length − 3]. Sentences gather into a chunk until it has that many tokens or the document ends. A is the
// first a of its sentences, a uniform in 1 … n − 1 (1 if n = 1), B is the rest of the chunk. With probability 1/2 the
// label is 1: B begins instead at a random sentence of another document and goes on until A and B have the target
// length, and the chunk's other sentences are used again; or A and B change places. If n = 1, B is from another
// document and the label 1 whatever is predicted: such a pair has no order, but ALBERT's script makes it too
// (SentencePairs counts them). While A and B have more than max_seq_length − 3 tokens, the longer one loses a token, at
// its beginning or its end with equal probability.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/sequence_set.h"
#include "text/tokenizer.h"

namespace lshformer {

// What label 1 means: nsp, next-sentence prediction (BERT); sop, sentence-order prediction (ALBERT).
enum class PairKind { kNextSentence, kSentenceOrder };
const char* NameOf(PairKind kind);  // "nsp", "sop"

struct SentencePairOptions {
  PairKind kind = PairKind::kNextSentence;
  int max_seq_length = 512;  // ≥ 5
  double short_seq_prob = 0.1;
  int dupe_factor = 1;  // passes over the corpus, each with choices of its own
  uint64_t seed = 42;
};

// Sentences as token ids without specials, document by document.
struct SentenceCorpus {
  SequenceSet sentences;
  std::vector<int64_t> documents{0};  // offsets into `sentences`; size − 1 documents, none of them empty
};

// A document is a text file, or where there is only one text file, one of its paragraphs; in JSON lines it is a row.
// Sentences by SplitSentences. Errors: those of ReadCorpus; fewer than two documents.
SentenceCorpus ReadSentences(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                             int64_t in_memory = SequenceSet::kInMemory);

struct SentencePairs {
  SequenceSet set;               // with labels
  int64_t single_sentences = 0;  // pairs of chunks of one sentence
};
// All pairs, a pure function of the corpus and the options.
SentencePairs MakeSentencePairs(const SentenceCorpus& corpus, const Tokenizer& tokenizer,
                                const SentencePairOptions& options);

}  // namespace lshformer
