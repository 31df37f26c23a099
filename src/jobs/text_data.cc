#include "jobs/text_data.h"

#include "data/corpus.h"

namespace lshformer {

SequenceSet ReadTextToMask(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                           const TextOptions& options, int64_t limit) {
  if (!options.pairs) {
    CorpusOptions corpus{.line_by_line = options.line_by_line, .max_seq_length = options.max_seq_length};
    corpus.max_sequences = limit;
    return ReadCorpus(files, tokenizer, corpus);
  }
  // Second sentences come from anywhere in the text, so all of it is read.
  SequenceSet pairs =
      MakeSentencePairs(ReadSentences(files, tokenizer), tokenizer,
                        {options.max_seq_length, options.short_seq_prob, options.dupe_factor, options.seed});
  pairs.KeepFirst(limit);
  return pairs;
}

}  // namespace lshformer
