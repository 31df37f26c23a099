// Plain text for masked language modelling, to train on and to evaluate on.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/sentence_pairs.h"
#include "data/sequence_set.h"
#include "models/config.h"
#include "text/tokenizer.h"

namespace lshformer {

struct TextOptions {
  int max_seq_length = 512;
  bool line_by_line = false;           // every line is a sequence; else blocks of max_seq_length. Not with pairs
  std::optional<PairKind> pairs = {};  // of sentences, with labels, made as the three below say
  double short_seq_prob = SentencePairOptions().short_seq_prob;
  int dupe_factor = SentencePairOptions().dupe_factor;
  uint64_t seed = 42;
};

// Of an objective, "mlm", "mlm+nsp" or "mlm+sop"; none of others.
std::optional<PairKind> PairsOf(const std::string& objective);

// OptionError of "objective" where a model cannot take pairs, whose sentences their types tell apart.
void RequireTypesOfPairs(PairKind pairs, const ModelConfig& config);

// The first `limit` sequences of the files; 0: all.
SequenceSet ReadTextToMask(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                           const TextOptions& options, int64_t limit);

}  // namespace lshformer
