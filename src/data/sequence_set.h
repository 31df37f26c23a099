// Encoded examples in the order of their files: what samplers choose from and batches are made of.
//
// An example is one sequence; or, of multiple choice, a sequence for each of its options. Sequences are numbered as
// they lie: where an example is one, its number is the sequence's.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/masking.h"
#include "data/words.h"
#include "text/tokenizer.h"

namespace lshformer {

// Token ids are kept in memory up to kInMemory tokens, beyond that in an unlinked temporary file mapped into memory,
// so that a corpus of any size can be trained on.
class SequenceSet {
 public:
  static constexpr int64_t kInMemory = int64_t{1} << 27;  // 512 MiB of ids

  explicit SequenceSet(int64_t in_memory = kInMemory);
  ~SequenceSet();
  SequenceSet(SequenceSet&&) noexcept;
  SequenceSet& operator=(SequenceSet&&) noexcept;

  void Add(std::span<const int32_t> ids, std::span<const int32_t> type_ids = {});  // type_ids empty: all 0
  void AddChoices(std::span<const Encoding> options);  // one example; a set has only such, or none
  // A context and a question for a model that reads words, both numbers in words(); a set has only such, or none.
  void AddWords(std::span<const int32_t> context, std::span<const int32_t> question);
  void AddLabel(int32_t label) { labels_.push_back(label); }
  void AddValue(float value) { values_.push_back(value); }  // a label to regress on
  void AddFlags(std::span<const float> flags);  // of every label whether it is there; as many of each example
  void AddSpan(int32_t start, int32_t end) { spans_.emplace_back(start, end); }  // of an answer: first and last token
  void KeepFirst(int64_t examples);          // 0: all; --max_train_samples, --max_eval_samples
  SequenceSet SplitFront(int64_t examples);  // removes the first `examples` and returns them

  int64_t size() const { return has_choices() ? static_cast<int64_t>(choices_.size()) - 1 : sequences(); }  // examples
  int64_t tokens() const { return offsets_.back() - offsets_.front(); }
  uint64_t Fingerprint()
      const;  // of all tokens, types, labels, values, flags and spans in their order; reads everything
  bool has_choices() const { return choices_.size() > 1; }
  bool has_words() const { return questions_ != nullptr; }
  DistinctWords& words() { return *words_; }
  const DistinctWords& words() const { return *words_; }
  // The sequences [first, second) of an example, and their tokens.
  std::pair<int64_t, int64_t> SequencesOf(int64_t example) const;
  int64_t TokensOf(int64_t example) const;

  // By the number of a sequence:
  int64_t sequences() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int length(int64_t i) const { return static_cast<int>(offsets_[i + 1] - offsets_[i]); }
  int max_length() const;
  std::span<const int32_t> ids(int64_t i) const;
  std::vector<int32_t> type_ids(int64_t i) const;                                    // [length]
  std::span<const int32_t> question(int64_t i) const { return questions_->ids(i); }  // of a set of words

  // By the number of an example:
  bool labelled() const { return !labels_.empty(); }
  int32_t label(int64_t i) const { return labels_[i]; }
  const std::vector<int32_t>& labels() const { return labels_; }
  bool has_values() const { return !values_.empty(); }
  float value(int64_t i) const { return values_[i]; }
  const std::vector<float>& values() const { return values_; }
  bool has_flags() const { return flag_count_ > 0; }
  std::span<const float> flags(int64_t i) const {
    return {flags_.data() + i * flag_count_, static_cast<size_t>(flag_count_)};
  }
  bool has_spans() const { return !spans_.empty(); }
  std::pair<int32_t, int32_t> span(int64_t i) const { return spans_[i]; }

 private:
  class Tokens;
  std::shared_ptr<Tokens> tokens_;   // shared by the two halves of a split
  std::vector<int64_t> offsets_{0};  // [sequences + 1] into tokens_
  std::vector<int32_t> first_type_;  // [sequences] number of leading tokens of type 0; the others have type 1
  std::vector<int64_t> choices_{0};  // [size + 1] sequences; {0}: each is an example
  std::shared_ptr<DistinctWords> words_ = std::make_shared<DistinctWords>();  // shared by the two halves of a split
  std::unique_ptr<SequenceSet> questions_;                                    // [sequences] or null
  std::vector<int32_t> labels_;                                               // [size] or empty
  std::vector<float> values_;                                                 // [size] or empty
  std::vector<float> flags_;                                                  // [size, flag_count_] or empty
  int64_t flag_count_ = 0;
  std::vector<std::pair<int32_t, int32_t>> spans_;  // [size] or empty
};

// The chosen examples in the given order. sequence_ids are the numbers of their sequences; class labels, values, spans
// and the borders of options where the set has some.
PackedBatch MakeBatch(const SequenceSet& set, std::span<const int64_t> examples);
// The same, masked for `visit` (the epoch; 0 for evaluation), with token_labels as well.
PackedBatch MakeMaskedBatch(const SequenceSet& set, std::span<const int64_t> examples, const Masker& masker,
                            uint64_t visit);

}  // namespace lshformer
