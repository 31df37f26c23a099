#include "data/masking.h"

#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace lshformer {

Masker::Masker(const Tokenizer& tokenizer, double probability, uint64_t seed)
    : mask_id_(tokenizer.mask_id()), vocab_size_(static_cast<uint32_t>(tokenizer.vocab_size())), seed_(seed) {
  if (!(probability > 0 && probability <= 1)) {
    FailUsage("--mlm_probability: expected more than 0 and at most 1, got {}", probability);
  }
  if (mask_id_ < 0) Fail("the vocabulary has no [MASK] token, which masked language modelling needs");
  threshold_ = static_cast<uint64_t>(std::llround(std::ldexp(probability, 32)));
  special_.resize(vocab_size_);
  for (uint32_t id = 0; id < vocab_size_; ++id) special_[id] = tokenizer.IsSpecial(static_cast<int32_t>(id));
}

void Masker::Mask(uint64_t visit, uint64_t example, std::span<int32_t> ids, std::span<int32_t> labels) const {
  const uint64_t key = StreamKey(seed_, visit, 0, 0, Purpose::kMasking);
  for (size_t i = 0; i < ids.size(); ++i) {
    labels[i] = kIgnoredLabel;
    if (special_[static_cast<size_t>(ids[i])]) continue;
    // One counter block a position: a choice depends on no other position.
    const auto [chosen, action, high, low] = Philox(key, i, example);
    if (chosen >= threshold_) continue;
    labels[i] = ids[i];
    // 80 % mask, then half of the rest random, in units of 2⁻³².
    if (action < 0xCCCCCCCDu) {
      ids[i] = mask_id_;
    } else if (action < 0xE6666667u) {
      // The remainder of a 64-bit number: no id is likelier than another by more than V / 2⁶⁴.
      ids[i] = static_cast<int32_t>(((uint64_t{high} << 32) | low) % vocab_size_);
    }
  }
}

}  // namespace lshformer
