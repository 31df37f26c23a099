#include "data/masking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/philox.h"

namespace lshformer {
namespace {

std::string OnlyForNgrams(const MaskedChoice& choice) {
  return choice.unit == MaskedUnit::kNgram ? "" : fmt::format("is for {} ngram", OptionName{"masking"});
}

}  // namespace

const OptionTable<MaskedChoice>& MaskingTable() {
  using M = MaskedChoice;
  static const OptionTable<M> table{
      {Names("masking", &M::unit, {"token", "whole_word", "ngram"},
             "masked LM: tokens by themselves, all pieces of a word, or several words in a row, as ALBERT was trained"),
       Integer("max_predictions_per_seq", &M::max_predictions, 0, INT32_MAX,
               "masked LM: a fixed number per sequence, at most this many, as BERT was trained; 0: no limit"),
       Integer("max_ngram", &M::max_ngram, 1, INT32_MAX, "masked LM, ngram: words in a row, at most")
           .MeaninglessIf(OnlyForNgrams)},
      nullptr,
      {},
      ""};
  return table;
}

Masker::Masker(const Tokenizer& tokenizer, double probability, uint64_t seed, const MaskedChoice& choice)
    : choice_(choice),
      probability_(probability),
      mask_id_(tokenizer.mask_id()),
      vocab_size_(static_cast<uint32_t>(tokenizer.vocab_size())),
      seed_(seed) {
  if (!(probability > 0 && probability <= 1)) {
    FailOption("mlm_probability", "expected more than 0 and at most 1, got {}", probability);
  }
  if (mask_id_ < 0) Fail("the vocabulary has no [MASK] token, which masked language modelling needs");
  threshold_ = static_cast<uint64_t>(std::llround(std::ldexp(probability, 32)));
  special_.resize(vocab_size_);
  continuation_.resize(vocab_size_);
  for (uint32_t id = 0; id < vocab_size_; ++id) {
    special_[id] = tokenizer.IsSpecial(static_cast<int32_t>(id));
    continuation_[id] = choice.unit != MaskedUnit::kToken && tokenizer.ContinuesWord(static_cast<int32_t>(id));
  }
}

void Masker::Replace(uint32_t action, uint32_t high, uint32_t low, int32_t& id) const {
  // 80 % mask, then half of the rest random, in units of 2⁻³².
  if (action < 0xCCCCCCCDu) {
    id = mask_id_;
  } else if (action < 0xE6666667u) {
    // The remainder of a 64-bit number: no id is likelier than another by more than V / 2⁶⁴.
    id = static_cast<int32_t>(((uint64_t{high} << 32) | low) % vocab_size_);
  }
}

void Masker::Mask(uint64_t visit, uint64_t example, std::span<int32_t> ids, std::span<int32_t> labels) const {
  const uint64_t key = StreamKey(seed_, visit, 0, 0, Purpose::kMasking);
  if (choice_.unit != MaskedUnit::kToken || choice_.max_predictions > 0)
    return MaskFixedNumber(key, example, ids, labels);
  for (size_t i = 0; i < ids.size(); ++i) {
    labels[i] = kIgnoredLabel;
    if (special_[static_cast<size_t>(ids[i])]) continue;
    // One counter block a position: a choice depends on no other position.
    const auto [chosen, action, high, low] = Philox(key, i, example);
    if (chosen >= threshold_) continue;
    labels[i] = ids[i];
    Replace(action, high, low, ids[i]);
  }
}

int NgramLength(double uniform, int longest) {
  double sum = 0;
  for (int n = 1; n <= longest; ++n) sum += 1.0 / n;
  double rest = uniform * sum;
  for (int n = 1; n < longest; ++n) {
    rest -= 1.0 / n;
    if (rest < 0) return n;
  }
  return longest;
}

std::vector<Masker::Word> Masker::WordsOf(std::span<const int32_t> ids) const {
  std::vector<Word> words;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<size_t>(ids[i]);
    if (special_[id]) continue;
    if (continuation_[id] && !words.empty() && words.back().second == i) {
      ++words.back().second;
    } else {
      words.emplace_back(i, i + 1);
    }
  }
  return words;
}

void Masker::MaskFixedNumber(uint64_t key, uint64_t example, std::span<int32_t> ids, std::span<int32_t> labels) const {
  std::fill(labels.begin(), labels.end(), kIgnoredLabel);
  const std::vector<Word> words = WordsOf(ids);
  const double share = probability_ * static_cast<double>(ids.size());
  size_t left = std::max<size_t>(1, static_cast<size_t>(std::nearbyint(share)));
  if (choice_.max_predictions > 0) left = std::min(left, static_cast<size_t>(choice_.max_predictions));
  const size_t longest = choice_.unit == MaskedUnit::kNgram ? static_cast<size_t>(choice_.max_ngram) : 1;
  std::vector<size_t> starts(words.size());
  std::iota(starts.begin(), starts.end(), size_t{0});
  const auto is_chosen = [&](const Word& word) { return labels[word.first] != kIgnoredLabel; };
  PhiloxStream random(key, example);
  for (size_t w = 0; w < words.size() && left > 0; ++w) {
    std::swap(starts[w], starts[w + random.Below(words.size() - w)]);  // a shuffle, as far as it is needed
    const size_t start = starts[w], available = std::min(longest, words.size() - start);
    const int length = longest == 1 ? 1 : NgramLength(random.Uniform(), static_cast<int>(available));
    std::span<const Word> span(words.data() + start, static_cast<size_t>(length));
    size_t pieces = 0;
    for (const auto& [begin, end] : span) pieces += end - begin;
    for (; pieces > left; span = span.first(span.size() - 1)) pieces -= span.back().second - span.back().first;
    if (std::any_of(span.begin(), span.end(), is_chosen)) continue;
    left -= pieces;
    for (const auto& [begin, end] : span) {
      for (size_t i = begin; i < end; ++i) {
        labels[i] = ids[i];
        const uint32_t action = random.Next(), high = random.Next();
        Replace(action, high, random.Next(), ids[i]);
      }
    }
  }
}

}  // namespace lshformer
