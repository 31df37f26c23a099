// The exponential moving average of the weights (Polyak averaging as image and language models use it):
//
//   average ← average + (1 − d) · (weight − average),   d = min(decay, (1 + n) / (10 + n))
//
// after every update, n updates having been made before it; at first average = weight. So an average looks back about
// 1 / (1 − decay) updates, and a ninth of the run as long as that is less: a short run's is not its start. The rule is
// that of TensorFlow's ExponentialMovingAverage with num_updates.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "train/optimizer.h"

namespace lshformer {

class WeightAverage {
 public:
  // 0 < decay < 1. Keeps one more copy of the weights.
  WeightAverage(double decay, NamedTensors parameters);

  void Update(int64_t updates_before);
  // Exchanges the weights and their average, bit for bit: once, and the model is the average; once more, and training
  // goes on.
  void Swap();
  // "weight.NAME", the side that is not in the model. The tensors are the state itself, as in Optimizer.
  NamedTensors State() const;

 private:
  void ForEachBlock(const std::function<void(float* weight, float* average, int64_t count)>& work);

  double decay_;
  NamedTensors parameters_;
  std::vector<torch::Tensor> averages_;  // of the shapes of the parameters
};

}  // namespace lshformer
