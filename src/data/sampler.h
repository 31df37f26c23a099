// Which examples make which batch.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lshformer {

// Training order. Epoch e visits a permutation of all examples drawn from (seed, e); batches of `batch_size` follow one
// another, the last one of an epoch may be short (drop_last = False); a step takes `accumulation` of them, the last
// step of an epoch what is left. So
//   batches_per_epoch = ⌈examples / batch_size⌉,   steps_per_epoch = ⌈batches_per_epoch / accumulation⌉.
// Everything is a function of the step number: nothing has to be saved to resume.
class TrainSampler {
 public:
  // All ≥ 1, else UsageError.
  TrainSampler(int64_t examples, int batch_size, int accumulation, uint64_t seed);

  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t Epoch(int64_t step) const { return step / steps_per_epoch_; }  // steps count from 0
  // The micro-batches of a step: example numbers, in order.
  std::vector<std::vector<int64_t>> Batches(int64_t step);

 private:
  int64_t examples_, batch_size_, accumulation_, batches_per_epoch_, steps_per_epoch_;
  uint64_t seed_;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> order_;  // [examples] of order_epoch_
};

// The permutation of [0, examples) drawn from (seed, epoch).
std::vector<int64_t> ShuffledOrder(int64_t examples, uint64_t seed, int64_t epoch);

// Consecutive runs [begin, end) of sequences with at most `max_tokens` tokens and `max_sequences` sequences each (0: no
// limit); a longer sequence stands alone. Packed batches have no padding, so nothing is gained by sorting by length and
// the order of the input is never lost.
std::vector<std::pair<int64_t, int64_t>> CutByTokens(std::span<const int> lengths, int64_t max_tokens,
                                                     int64_t max_sequences = 0);

}  // namespace lshformer
