#include "train/weight_average.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/updates.h"

namespace lshformer {

WeightAverage::WeightAverage(double decay, NamedTensors parameters)
    : decay_(decay), parameters_(std::move(parameters)) {
  for (const auto& [name, parameter] : parameters_) averages_.push_back(parameter.detach().clone());
}

void WeightAverage::ForEachBlock(const std::function<void(float*, float*, int64_t)>& work) {
  constexpr int64_t kBlock = 1 << 15;  // as the optimizer's: small enough to share one embedding table among threads
  for (size_t i = 0; i < parameters_.size(); ++i) {
    float* weight = parameters_[i].second.data_ptr<float>();
    float* average = averages_[i].data_ptr<float>();
    ParallelFor(averages_[i].numel(), kBlock,
                [&](int64_t begin, int64_t end) { work(weight + begin, average + begin, end - begin); });
  }
}

void WeightAverage::Update(int64_t updates_before) {
  const double n = static_cast<double>(updates_before);
  const auto share = static_cast<float>(1 - std::min(decay_, (1 + n) / (10 + n)));
  ForEachBlock(
      [share](const float* weight, float* average, int64_t count) { UpdateAverage(share, weight, average, count); });
}

void WeightAverage::Swap() {
  ForEachBlock([](float* weight, float* average, int64_t count) { std::swap_ranges(weight, weight + count, average); });
  // Whoever keeps something made from a weight (a packed copy) sees by its version that it changed.
  for (const auto& [name, parameter] : parameters_) parameter.unsafeGetTensorImpl()->bump_version();
}

NamedTensors WeightAverage::State() const {
  NamedTensors state;
  for (size_t i = 0; i < parameters_.size(); ++i) state.emplace_back("weight." + parameters_[i].first, averages_[i]);
  return state;
}

}  // namespace lshformer
