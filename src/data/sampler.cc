#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace lshformer {

std::vector<int64_t> ShuffledOrder(int64_t examples, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(examples));
  std::iota(order.begin(), order.end(), 0);
  PhiloxStream random(StreamKey(seed, static_cast<uint64_t>(epoch), 0, 0, Purpose::kShuffle));
  for (int64_t i = examples - 1; i > 0; --i) {  // Fisher-Yates
    std::swap(order[i], order[random.Below(static_cast<uint64_t>(i) + 1)]);
  }
  return order;
}

TrainSampler::TrainSampler(int64_t examples, int batch_size, int accumulation, uint64_t seed)
    : examples_(examples), batch_size_(batch_size), accumulation_(accumulation), seed_(seed) {
  if (examples < 1) Fail("no training examples");
  if (batch_size < 1) FailOption("per_device_train_batch_size", "expected at least 1, got {}", batch_size);
  if (accumulation < 1) FailOption("gradient_accumulation_steps", "expected at least 1, got {}", accumulation);
  batches_per_epoch_ = (examples_ + batch_size_ - 1) / batch_size_;
  steps_per_epoch_ = (batches_per_epoch_ + accumulation_ - 1) / accumulation_;
}

std::vector<std::vector<int64_t>> TrainSampler::Batches(int64_t step) {
  const int64_t epoch = Epoch(step);
  if (epoch != order_epoch_) {
    order_ = ShuffledOrder(examples_, seed_, epoch);
    order_epoch_ = epoch;
  }
  const int64_t first = (step - epoch * steps_per_epoch_) * accumulation_;
  const int64_t last = std::min(first + accumulation_, batches_per_epoch_);
  std::vector<std::vector<int64_t>> batches;
  for (int64_t batch = first; batch < last; ++batch) {
    const int64_t begin = batch * batch_size_, end = std::min(begin + batch_size_, examples_);
    batches.emplace_back(order_.begin() + begin, order_.begin() + end);
  }
  return batches;
}

std::vector<std::pair<int64_t, int64_t>> CutByTokens(std::span<const int> lengths, int64_t max_tokens,
                                                     int64_t max_sequences) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  const int64_t count = static_cast<int64_t>(lengths.size());
  int64_t begin = 0, tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool full = tokens + lengths[i] > max_tokens || (max_sequences > 0 && i - begin >= max_sequences);
    if (i > begin && full) {
      runs.emplace_back(begin, i);
      begin = i;
      tokens = 0;
    }
    tokens += lengths[i];
  }
  if (begin < count) runs.emplace_back(begin, count);
  return runs;
}

}  // namespace lshformer
