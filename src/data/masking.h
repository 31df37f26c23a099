// Masked language modelling. Which tokens are chosen:
//   by default, as HF's DataCollatorForLanguageModeling: every token that is not special with probability p, by itself;
//   with a fixed number, as BERT's create_pretraining_data.py: max(1, p · n rounded to even) of a sequence of n tokens
//   (specials count in n), at most max_predictions; with whole words, a word's pieces (Tokenizer::ContinuesWord) all or
//   none, words that no longer fit are passed over;
//   with n-grams, as ALBERT's create_pretraining_data.py: the same number, in spans of words. Words are taken as starts
//   in random order; a span has n words with probability p(n) = (1/n) / Σ 1/k, k = 1 … max_ngram or as many words as
//   are left from its start on, loses its last ones while it has more pieces than are still to be chosen, and is passed
//   over where even its first does not fit or one of its words is chosen already. Specials are in no span, but one may
//   go on behind them, as there.
// Of the chosen ones 80 % become [MASK], 10 % a token drawn from the whole vocabulary, 10 % stay. Labels are the
// original ids of the chosen tokens, −100 elsewhere.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/option_table.h"
#include "text/tokenizer.h"

namespace lshformer {

inline constexpr int32_t kIgnoredLabel = -100;

enum class MaskedUnit { kToken, kWholeWord, kNgram };

struct MaskedChoice {
  MaskedUnit unit = MaskedUnit::kToken;
  int max_predictions = 0;  // > 0, whole words or n-grams: a fixed number a sequence, at most this many (0: no limit)
  int max_ngram = 3;        // words of the longest span
};

// One row an option, for flags, help and the settings of a run.
const OptionTable<MaskedChoice>& MaskingTable();

// n in 1 … longest with p(n) = (1/n) / Σ 1/k, of a number drawn uniformly from [0, 1): of three 6/11, 3/11, 2/11.
int NgramLength(double uniform, int longest);

// The choice for (visit, example, position) is a function of the seed alone: fresh in every epoch, the same on every
// machine, in every batch and after a resume.
class Masker {
 public:
  // probability in (0, 1]; UsageError otherwise. Error if the tokenizer has no [MASK].
  Masker(const Tokenizer& tokenizer, double probability, uint64_t seed, const MaskedChoice& choice = {});
  // ids: [n], replaced in place. labels: [n], overwritten.
  void Mask(uint64_t visit, uint64_t example, std::span<int32_t> ids, std::span<int32_t> labels) const;

 private:
  using Word = std::pair<size_t, size_t>;  // its pieces, half-open
  std::vector<Word> WordsOf(std::span<const int32_t> ids) const;
  void MaskFixedNumber(uint64_t key, uint64_t example, std::span<int32_t> ids, std::span<int32_t> labels) const;
  void Replace(uint32_t action, uint32_t high, uint32_t low, int32_t& id) const;

  MaskedChoice choice_;
  double probability_;
  std::vector<bool> special_;       // [vocab_size]
  std::vector<bool> continuation_;  // [vocab_size], where words count
  int32_t mask_id_;
  uint32_t vocab_size_;
  uint64_t threshold_;  // p · 2³²
  uint64_t seed_;
};

}  // namespace lshformer
