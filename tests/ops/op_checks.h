// What the tests of every op ask: that it agrees with its twin in double, and the twin with finite differences; that
// the bits depend neither on threads nor on batch-mates.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "ops/threads.h"
#include "ops/torch.h"
#include "util/numbers.h"

namespace lshformer::testing {

inline torch::Tensor Normal(std::vector<int64_t> shape, uint64_t seed, double scale = 1) {
  torch::manual_seed(seed);
  return torch::randn(shape, torch::kFloat64) * scale;
}

// |got − want| ≤ factor · largest |want|.
inline void ExpectClose(const torch::Tensor& got, const torch::Tensor& want, double factor, const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  if (want.numel() == 0) return;
  const double bound = factor * std::max(want.abs().max().item<double>(), 1e-30);
  const double worst = (got.to(torch::kFloat64) - want).abs().max().item<double>();
  EXPECT_LE(worst, bound) << what;
}

using TensorFunction = std::function<torch::Tensor(const std::vector<torch::Tensor>&)>;

inline torch::Tensor Dense(const torch::Tensor& gradient) {
  return gradient.is_sparse() ? gradient.to_dense() : gradient;
}

// Runs the op in float and its twin in double on the same numbers; compares results and the gradients of Σ result · g
// for a random g.
inline void ExpectSameAsReference(const TensorFunction& op, const TensorFunction& reference,
                                  const std::vector<torch::Tensor>& inputs, double factor = 1e-5) {
  std::vector<torch::Tensor> single, exact;
  for (const torch::Tensor& input : inputs) {
    single.push_back(input.to(torch::kFloat32).clone().requires_grad_(true));
    exact.push_back(input.to(torch::kFloat32).to(torch::kFloat64).requires_grad_(true));
  }
  const torch::Tensor got = op(single), want = reference(exact);
  ExpectClose(got, want, factor, "result");
  const torch::Tensor weight = Normal(want.sizes().vec(), 99).to(torch::kFloat32);
  (got * weight).sum().backward();
  (want * weight.to(torch::kFloat64)).sum().backward();
  double largest = 0;
  for (const torch::Tensor& input : exact)
    if (input.grad().defined()) largest = std::max(largest, input.grad().abs().max().item<double>());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(single[i].grad().defined(), exact[i].grad().defined()) << "input " << i;
    if (!exact[i].grad().defined()) continue;
    const double worst = (Dense(single[i].grad()).to(torch::kFloat64) - exact[i].grad()).abs().max().item<double>();
    EXPECT_LE(worst, factor * std::max(exact[i].grad().abs().max().item<double>(), 1e-2 * largest))
        << "gradient of input " << i;
  }
}

// The twins themselves: gradients by central differences in double.
inline void ExpectGradientsOf(const TensorFunction& reference, std::vector<torch::Tensor> inputs) {
  for (torch::Tensor& input : inputs) input.requires_grad_(true);
  const torch::Tensor weight = Normal(reference(inputs).sizes().vec(), 98);
  (reference(inputs) * weight).sum().backward();
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    torch::Tensor flat = inputs[i].view({-1});
    const torch::Tensor gradient = inputs[i].grad().view({-1});
    for (int64_t k = 0; k < flat.numel(); k += 1 + flat.numel() / 12) {
      const double value = flat[k].item<double>(), step = 1e-6;
      flat[k] = value + step;
      const double up = (reference(inputs) * weight).sum().item<double>();
      flat[k] = value - step;
      const double down = (reference(inputs) * weight).sum().item<double>();
      flat[k] = value;
      EXPECT_NEAR(gradient[k].item<double>(), (up - down) / (2 * step), 1e-7 * (1 + std::abs(up)))
          << "input " << i << " element " << k;
    }
  }
}

// The result and, where it is defined, each input's gradient of Σ result · g for a fixed g.
inline std::vector<torch::Tensor> ResultAndGradients(const TensorFunction& op, std::vector<torch::Tensor> inputs) {
  for (torch::Tensor& input : inputs) input = input.to(torch::kFloat32).clone().requires_grad_(true);
  const torch::Tensor result = op(inputs);
  result.backward(Normal(result.sizes().vec(), 97).to(torch::kFloat32));
  std::vector<torch::Tensor> all{result.detach()};
  for (const torch::Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

// `count` of ResultAndGradients are the same bits for 1, 2 and 5 threads.
inline void ExpectSameForAllThreads(const TensorFunction& op, const std::vector<torch::Tensor>& inputs, size_t count) {
  SetAllThreads(1);
  const std::vector<torch::Tensor> want = ResultAndGradients(op, inputs);
  for (const int threads : {2, 5}) {
    SetAllThreads(threads);
    const std::vector<torch::Tensor> got = ResultAndGradients(op, inputs);
    for (size_t i = 0; i < count; ++i)
      EXPECT_TRUE(got[i].equal(want[i])) << threads << " threads, " << (i == 0 ? "result" : "gradient ") << i;
  }
  SetAllThreads(HardwareThreads());
}

}  // namespace lshformer::testing
