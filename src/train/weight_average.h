// The exponential moving average of the weights (Polyak averaging as image and language models use it):
//
//   average ← average + (1 − decay) · (weight − average)     after every update; at first average = weight
//
// so an average looks back about 1 / (1 − decay) updates. There is no warm-up of the decay and no correction: the
// weights before the first update count like any others.
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

  void Update();
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
