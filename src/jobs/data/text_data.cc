#include "jobs/data/text_data.h"

#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/logging.h"
#include "data/corpus.h"

namespace lshformer {

std::optional<PairKind> PairsOf(const std::string& objective) {
  if (objective == "mlm+nsp") return PairKind::kNextSentence;
  if (objective == "mlm+sop") return PairKind::kSentenceOrder;
  return std::nullopt;
}

void RequireTypesOfPairs(PairKind pairs, const ModelConfig& config) {
  if (config.type_vocab_size < 2)
    FailOption("objective", "{} is of pairs of sentences, which the model does not take (type_vocab_size {})",
               pairs == PairKind::kNextSentence ? "mlm+nsp" : "mlm+sop", config.type_vocab_size);
}

SequenceSet ReadTextToMask(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                           const TextOptions& options, int64_t limit) {
  if (!options.pairs) {
    CorpusOptions corpus{.line_by_line = options.line_by_line, .max_seq_length = options.max_seq_length};
    corpus.max_sequences = limit;
    return ReadCorpus(files, tokenizer, corpus);
  }
  // Second sentences come from anywhere in the text, so all of it is read.
  SentencePairs pairs = MakeSentencePairs(
      ReadSentences(files, tokenizer), tokenizer,
      {*options.pairs, options.max_seq_length, options.short_seq_prob, options.dupe_factor, options.seed});
  if (*options.pairs == PairKind::kSentenceOrder && pairs.single_sentences > 0)
    spdlog::info("{} of {} pairs have no order: their chunk was one sentence, so the other is from another document",
                 pairs.single_sentences, pairs.set.size());
  if (pairs.single_sentences * 2 > pairs.set.size())
    Warn(
        "{} of {} pairs are of texts without a second sentence; what does not fit into {} tokens of a sentence is left "
        "out. Is the end of a sentence marked?",
        pairs.single_sentences, pairs.set.size(), options.max_seq_length);
  pairs.set.KeepFirst(limit);
  return std::move(pairs.set);
}

}  // namespace lshformer
