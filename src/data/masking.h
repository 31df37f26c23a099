// Masked language modelling as HF's DataCollatorForLanguageModeling does it: every token that is not special is chosen
// with probability p, by itself; of the chosen ones 80 % become [MASK], 10 % a token drawn from the whole vocabulary,
// 10 % stay. Labels are the original ids of the chosen tokens, −100 elsewhere.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace lshformer {

inline constexpr int32_t kIgnoredLabel = -100;

// The choice for (visit, example, position) is a function of the seed alone: fresh in every epoch, the same on every
// machine, in every batch and after a resume.
class Masker {
 public:
  // probability in (0, 1]; UsageError otherwise. Error if the tokenizer has no [MASK].
  Masker(const Tokenizer& tokenizer, double probability, uint64_t seed);
  // ids: [n], replaced in place. labels: [n], overwritten.
  void Mask(uint64_t visit, uint64_t example, std::span<int32_t> ids, std::span<int32_t> labels) const;

 private:
  std::vector<bool> special_;  // [vocab_size]
  int32_t mask_id_;
  uint32_t vocab_size_;
  uint64_t threshold_;  // p · 2³²
  uint64_t seed_;
};

}  // namespace lshformer
