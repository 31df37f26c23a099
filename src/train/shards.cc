#include "train/shards.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace lshformer {

TrainingOptions SharedBy(int processes, TrainingOptions options) {
  if (options.total_batch_size == 0 && processes > 1) {
    const int64_t total =
        int64_t{options.per_device_train_batch_size} * options.gradient_accumulation_steps * processes;
    if (total > std::numeric_limits<int>::max())
      FailOption("per_device_train_batch_size", "{} sequences an update are too many", total);
    options.total_batch_size = static_cast<int>(total);
    options.gradient_accumulation_steps = 1;
  }
  if (options.gradient_shards == 0) options.gradient_shards = options.total_batch_size > 0 ? kShards : 1;
  return options;
}

TrainSampler SamplerOf(const TrainingOptions& options, int64_t examples) {
  if (options.total_batch_size > 0) return {examples, options.total_batch_size, 1, options.seed};
  return {examples, options.per_device_train_batch_size, options.gradient_accumulation_steps, options.seed};
}

std::vector<Piece> PiecesOf(std::vector<std::vector<int64_t>> batches, const TrainingOptions& options) {
  std::vector<Piece> pieces;
  if (options.gradient_shards <= 1 && options.total_batch_size == 0) {
    for (std::vector<int64_t>& batch : batches) pieces.push_back({0, std::move(batch)});
    return pieces;
  }
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  const auto count = static_cast<int64_t>(all.size());
  const int64_t parts = std::max(1, options.gradient_shards);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t end = count * (part + 1) / parts;
    for (int64_t begin = count * part / parts; begin < end;) {
      const int64_t stop = std::min(end, begin + options.per_device_train_batch_size);
      pieces.push_back({static_cast<int>(part), {all.begin() + begin, all.begin() + stop}});
      begin = stop;
    }
  }
  return pieces;
}

std::pair<int, int> PartsOf(int rank, int processes, int parts) {
  const auto begin = [&](int64_t at) { return static_cast<int>(int64_t{parts} * at / processes); };
  return {begin(rank), begin(rank + 1)};
}

}  // namespace lshformer
