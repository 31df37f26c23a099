#include "train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/parallel.h"
#include "kernels/updates.h"
#include "util/errors.h"

namespace lshformer {
namespace {

// Sizes around every vector width, and one of several blocks.
constexpr int64_t kSizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 33, 70001};

struct Problem {
  NamedTensors parameters;
  std::vector<ParameterRole> roles;  // the biases do not decay

  explicit Problem(uint64_t seed) {
    torch::manual_seed(seed);
    for (const int64_t size : kSizes) {
      parameters.emplace_back("layer" + std::to_string(size) + ".weight", torch::randn({size}).requires_grad_());
      parameters.emplace_back("layer" + std::to_string(size) + ".bias", torch::randn({size}).requires_grad_());
      roles.insert(roles.end(), {{.decays = true}, {.decays = false}});
    }
    for (const int64_t rows : {24, 130}) {  // wide, and tall
      parameters.emplace_back("map" + std::to_string(rows) + ".weight", torch::randn({rows, 70}).requires_grad_());
      roles.push_back({.layer_map = true});
    }
  }
  // Gradients over many magnitudes, equal for equal steps.
  void DrawGradients(int64_t step) {
    torch::manual_seed(1000 + static_cast<uint64_t>(step));
    for (auto& [name, parameter] : parameters)
      parameter.mutable_grad() = torch::randn_like(parameter) * torch::pow(10, torch::randn_like(parameter));
  }
};

TrainingOptions HardOptions(OptimizerType optim = OptimizerType::kAdamW) {
  TrainingOptions options;
  options.optim = optim;
  options.weight_decay = 0.1;
  options.adam_beta1 = 0.8;
  options.adam_beta2 = 0.98;
  options.adam_epsilon = 1e-6;
  return options;
}

// Ours multiplies by 1/√(1 − β₂ᵗ) where torch divides, and fuses products with sums: a few roundings per step.
void ExpectWithinRoundings(const torch::Tensor& got, const torch::Tensor& want, int64_t steps,
                           const std::string& name) {
  const torch::Tensor scale = torch::maximum(want.abs(), torch::full_like(want, 1e-3));
  const double worst = ((got - want).abs() / scale).max().item<double>();
  EXPECT_LE(worst, 8 * std::numeric_limits<float>::epsilon() * static_cast<double>(steps)) << name;
}

template <class Reference, class ReferenceOptions>
void ExpectToFollow(OptimizerType optim) {
  constexpr int64_t kSteps = 20;
  const TrainingOptions options = HardOptions(optim);
  Problem ours(3), theirs(3);
  const auto optimizer = MakeOptimizer(options, ours.parameters, ours.roles);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const bool decays : {true, false}) {
    std::vector<torch::Tensor> tensors;
    for (size_t i = 0; i < theirs.parameters.size(); ++i)
      if (theirs.roles[i].decays == decays) tensors.push_back(theirs.parameters[i].second);
    auto group_options = std::make_unique<ReferenceOptions>();
    group_options->betas({options.adam_beta1, options.adam_beta2}).eps(options.adam_epsilon);
    group_options->weight_decay(decays ? options.weight_decay : 0);
    groups.emplace_back(tensors, std::move(group_options));
  }
  Reference reference(groups);
  for (int64_t step = 0; step < kSteps; ++step) {
    const double rate = 1e-2 / static_cast<double>(step + 1);
    ours.DrawGradients(step);
    theirs.DrawGradients(step);
    for (auto& group : reference.param_groups()) group.options().set_lr(rate);
    optimizer->Step(rate, 1);
    reference.step();
  }
  EXPECT_EQ(optimizer->steps(), kSteps);
  for (size_t i = 0; i < ours.parameters.size(); ++i) {
    const auto& [name, parameter] = ours.parameters[i];
    ExpectWithinRoundings(parameter.detach(), theirs.parameters[i].second.detach(), kSteps, name);
  }
}

TEST(AdamW, FollowsTorch) { ExpectToFollow<torch::optim::AdamW, torch::optim::AdamWOptions>(OptimizerType::kAdamW); }
TEST(Adam, FollowsTorch) { ExpectToFollow<torch::optim::Adam, torch::optim::AdamOptions>(OptimizerType::kAdam); }

// β₁ = 1/2, β₂ = 3/4, ε = 0, weight decay 1/2, learning rate 3/4; gradients 1, then −2:
//   weight 6: g = 1 + 3 = 4, m̂ = 4, √v̂ = 4, w = 6 − 3/4;     g = −2 + 21/8 = 5/8, m = 21/16, m̂ = 7/4,
//             v = 3/4 · 4 + 1/4 · 25/64 = 793/256, v̂ = 793/112
//   bias 6:   g = 1, w = 6 − 3/4;                            g = −2, m = −3/4, m̂ = −1, v = 19/16, v̂ = 19/7
TEST(Adam, TwoStepsByHand) {
  TrainingOptions options;
  options.optim = OptimizerType::kAdam;
  options.adam_beta1 = 0.5, options.adam_beta2 = 0.75, options.adam_epsilon = 0, options.weight_decay = 0.5;
  const NamedTensors parameters{{"weight", torch::tensor({6.0f}).requires_grad_()},
                                {"bias", torch::tensor({6.0f}).requires_grad_()}};
  const auto optimizer = MakeOptimizer(options, parameters, {{.decays = true}, {.decays = false}});
  for (const float gradient : {1.0f, -2.0f}) {
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = torch::tensor({gradient});
    optimizer->Step(0.75, 1);
    if (gradient < 0) break;
    EXPECT_FLOAT_EQ(parameters[0].second.item<float>(), 5.25f);
    EXPECT_FLOAT_EQ(parameters[1].second.item<float>(), 5.25f);
  }
  EXPECT_FLOAT_EQ(parameters[0].second.item<float>(), static_cast<float>(5.25 - 0.75 * 1.75 / std::sqrt(793.0 / 112)));
  EXPECT_FLOAT_EQ(parameters[1].second.item<float>(), static_cast<float>(5.25 + 0.75 / std::sqrt(19.0 / 7)));
}

// ρ = 1/2, ε = 1, weight decay 1/2, learning rate 3/4. Weight 8 with the gradients 0, then −3/2, and bias 6 with 4,
// then 2, have both g = 4, then 2:
//   square_avg = 8, Δ = 1 / 3 · 4, step 1, acc_delta = 8/9;   square_avg = 6, Δ = √(17/9) / √7 · 2
TEST(Adadelta, TwoStepsByHand) {
  TrainingOptions options;
  options.optim = OptimizerType::kAdadelta;
  options.adadelta_rho = 0.5, options.adadelta_epsilon = 1, options.weight_decay = 0.5;
  const NamedTensors parameters{{"weight", torch::tensor({8.0f}).requires_grad_()},
                                {"bias", torch::tensor({6.0f}).requires_grad_()}};
  const auto optimizer = MakeOptimizer(options, parameters, {{.decays = true}, {.decays = false}});
  const auto step = [&](float weight, float bias) {
    parameters[0].second.mutable_grad() = torch::tensor({weight});
    parameters[1].second.mutable_grad() = torch::tensor({bias});
    optimizer->Step(0.75, 1);
  };
  step(0, 4);
  EXPECT_FLOAT_EQ(parameters[0].second.item<float>(), 7);
  EXPECT_FLOAT_EQ(parameters[1].second.item<float>(), 5);
  step(-1.5f, 2);
  const double second = 0.75 * 2 * std::sqrt(17.0 / 63);
  EXPECT_FLOAT_EQ(parameters[0].second.item<float>(), static_cast<float>(7 - second));
  EXPECT_FLOAT_EQ(parameters[1].second.item<float>(), static_cast<float>(5 - second));
  const NamedTensors state = optimizer->State();
  EXPECT_EQ(state[0].first, "square_avg.weight");
  EXPECT_FLOAT_EQ(state[0].second.item<float>(), 6);
  EXPECT_EQ(state[3].first, "acc_delta.bias");
  EXPECT_FLOAT_EQ(state[3].second.item<float>(), static_cast<float>(0.5 * 8 / 9 + 0.5 * 4 * 17 / 63));
}

// torch.optim.Adadelta's formula, in double: libtorch has none.
TEST(Adadelta, FollowsItsFormula) {
  TrainingOptions options = HardOptions(OptimizerType::kAdadelta);
  options.adadelta_rho = 0.95, options.adadelta_epsilon = 1e-8;
  Problem ours(3);
  const auto optimizer = MakeOptimizer(options, ours.parameters, ours.roles);
  std::vector<torch::Tensor> weights, square, deltas, moved;
  for (const auto& [name, parameter] : ours.parameters) {
    weights.push_back(parameter.detach().to(torch::kFloat64));
    for (auto* zeros : {&square, &deltas, &moved}) zeros->push_back(torch::zeros_like(weights.back()));
  }
  constexpr int64_t kSteps = 10;
  constexpr double kRate = 0.5, kScale = 0.5;
  const double rho = options.adadelta_rho, epsilon = options.adadelta_epsilon;
  for (int64_t step = 0; step < kSteps; ++step) {
    ours.DrawGradients(step);
    optimizer->Step(kRate, kScale);
    for (size_t i = 0; i < weights.size(); ++i) {
      torch::Tensor gradient = kScale * ours.parameters[i].second.grad().to(torch::kFloat64);
      if (ours.roles[i].decays) gradient = gradient + options.weight_decay * weights[i];
      square[i] = rho * square[i] + (1 - rho) * gradient.square();
      const torch::Tensor delta = (deltas[i] + epsilon).sqrt() / (square[i] + epsilon).sqrt() * gradient;
      deltas[i] = rho * deltas[i] + (1 - rho) * delta.square();
      weights[i] = weights[i] - kRate * delta;
      moved[i] += kRate * delta.abs();
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    // Roundings of the weight at every step, and of each Δ, into which go those of all steps before.
    const torch::Tensor error = (ours.parameters[i].second.detach().to(torch::kFloat64) - weights[i]).abs();
    const torch::Tensor bound =
        kSteps * std::numeric_limits<float>::epsilon() * (8 * weights[i].abs() + 16 * moved[i] + 8 * kRate * 1e-4);
    EXPECT_TRUE((error <= bound).all().item<bool>()) << ours.parameters[i].first;
    EXPECT_GT(moved[i].max().item<double>(), 1e-4);
  }
}

// BERT's optimization.py, in double: m and v without correction, decay added to the update.
TEST(AdamW, OfBertHasNoBiasCorrection) {
  const TrainingOptions options = HardOptions(OptimizerType::kAdamWBert);
  Problem ours(3);
  const auto optimizer = MakeOptimizer(options, ours.parameters, ours.roles);
  std::vector<torch::Tensor> parameters, m, v;
  for (const auto& [name, parameter] : ours.parameters) {
    parameters.push_back(parameter.detach().to(torch::kFloat64));
    m.push_back(torch::zeros_like(parameters.back()));
    v.push_back(torch::zeros_like(parameters.back()));
  }
  constexpr int64_t kSteps = 10;
  for (int64_t step = 0; step < kSteps; ++step) {
    ours.DrawGradients(step);
    optimizer->Step(1e-2, 1);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const torch::Tensor gradient = ours.parameters[i].second.grad().to(torch::kFloat64);
      m[i] = options.adam_beta1 * m[i] + (1 - options.adam_beta1) * gradient;
      v[i] = options.adam_beta2 * v[i] + (1 - options.adam_beta2) * gradient * gradient;
      torch::Tensor update = m[i] / (v[i].sqrt() + options.adam_epsilon);
      if (ours.roles[i].decays) update = update + options.weight_decay * parameters[i];
      parameters[i] = parameters[i] - 1e-2 * update;
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    // Roundings of the parameter, and of an update of up to √10 learning rates (m / √v of a first gradient).
    const torch::Tensor error = (ours.parameters[i].second.detach().to(torch::kFloat64) - parameters[i]).abs();
    const torch::Tensor bound = kSteps * std::numeric_limits<float>::epsilon() * (8 * parameters[i].abs() + 16 * 1e-2);
    EXPECT_TRUE((error <= bound).all().item<bool>()) << ours.parameters[i].first;
  }
}

// lamb_optimizer.py, in double: no correction, and the ratio of the norms for what decays.
TEST(Lamb, FollowsItsFormula) {
  const TrainingOptions options = HardOptions(OptimizerType::kLamb);
  Problem ours(3);
  const auto optimizer = MakeOptimizer(options, ours.parameters, ours.roles);
  std::vector<torch::Tensor> weights, m, v;
  for (const auto& [name, parameter] : ours.parameters) {
    weights.push_back(parameter.detach().to(torch::kFloat64));
    m.push_back(torch::zeros_like(weights.back()));
    v.push_back(torch::zeros_like(weights.back()));
  }
  constexpr int64_t kSteps = 10;
  constexpr double kRate = 1e-2, kScale = 0.5;
  for (int64_t step = 0; step < kSteps; ++step) {
    ours.DrawGradients(step);
    optimizer->Step(kRate, kScale);
    for (size_t i = 0; i < weights.size(); ++i) {
      const torch::Tensor gradient = kScale * ours.parameters[i].second.grad().to(torch::kFloat64);
      m[i] = options.adam_beta1 * m[i] + (1 - options.adam_beta1) * gradient;
      v[i] = options.adam_beta2 * v[i] + (1 - options.adam_beta2) * gradient * gradient;
      torch::Tensor update = m[i] / (v[i].sqrt() + options.adam_epsilon);
      double ratio = 1;
      if (ours.roles[i].decays) {
        update = update + options.weight_decay * weights[i];
        ratio = (weights[i].norm() / update.norm()).item<double>();
      }
      weights[i] = weights[i] - kRate * ratio * update;
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    // Roundings of the weight, and of an update of up to √10 learning rates (m / √v of a first gradient) times a ratio
    // of about 1 (u's elements are about as large as the weights').
    const torch::Tensor error = (ours.parameters[i].second.detach().to(torch::kFloat64) - weights[i]).abs();
    const torch::Tensor bound = kSteps * std::numeric_limits<float>::epsilon() * (8 * weights[i].abs() + 64 * kRate);
    EXPECT_TRUE((error <= bound).all().item<bool>()) << ours.parameters[i].first;
  }
}

// β₁ = 1/2, β₂ = 3/4, ε = 0, weight decay 1/2, learning rate 3/4; gradients (2, −8), then (1, −4):
//   m = (1, −4), √v = (1, 4);   m = (1, −4), √v = (1, 4):   m / √v = (1, −1) both times
// weight (6, 8), norm 10:      u = (1, −1) + (6, 8) / 2 = (4, 3), norm 5, ratio 2; (6, 8) − 3/4 · 2 · (4, 3) = (0, 3.5)
// weight (0, 3.5), norm 3.5:   u = (1, 0.75), norm 1.25, ratio 2.8;    (0, 3.5) − 3/4 · 2.8 · (1, 0.75) = (−2.1, 1.925)
// bias (6, 8), neither decay nor ratio:                               (5.25, 8.75), then (4.5, 9.5)
// weight (0, 0): a ratio of 1:                                        (−0.75, 0.75)
TEST(Lamb, TwoStepsByHand) {
  TrainingOptions options;
  options.optim = OptimizerType::kLamb;
  options.adam_beta1 = 0.5;
  options.adam_beta2 = 0.75;
  options.adam_epsilon = 0;
  options.weight_decay = 0.5;
  const NamedTensors parameters{{"weight", torch::tensor({6.0f, 8.0f}).requires_grad_()},
                                {"bias", torch::tensor({6.0f, 8.0f}).requires_grad_()},
                                {"zero.weight", torch::zeros({2}).requires_grad_()}};
  const auto optimizer = MakeOptimizer(options, parameters, {{.decays = true}, {.decays = false}, {.decays = true}});
  const auto step = [&](const torch::Tensor& gradient) {
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = gradient.clone();
    optimizer->Step(0.75, 1);
  };
  const auto expect = [&](size_t i, float first, float second) {
    const float* got = parameters[i].second.data_ptr<float>();
    EXPECT_FLOAT_EQ(got[0], first) << parameters[i].first;
    EXPECT_FLOAT_EQ(got[1], second) << parameters[i].first;
  };
  step(torch::tensor({2.0f, -8.0f}));
  expect(0, 0, 3.5f);
  expect(1, 5.25f, 8.75f);
  expect(2, -0.75f, 0.75f);
  step(torch::tensor({1.0f, -4.0f}));
  expect(0, -2.1f, 1.925f);
  expect(1, 4.5f, 9.5f);
}

// Neither moments nor decay: nothing to divide by.
TEST(Lamb, WithoutAnUpdateNothingMoves) {
  TrainingOptions options;
  options.optim = OptimizerType::kLamb;
  const NamedTensors parameters{{"weight", torch::ones({40000}).requires_grad_()}};
  parameters[0].second.mutable_grad() = torch::zeros({40000});
  MakeOptimizer(options, parameters, {{.decays = true}})->Step(1, 1);
  EXPECT_TRUE(parameters[0].second.detach().equal(torch::ones({40000})));
}

// What holds of all of them.
class OptimizerTest : public ::testing::TestWithParam<OptimizerType> {};
INSTANTIATE_TEST_SUITE_P(All, OptimizerTest,
                         ::testing::Values(OptimizerType::kAdamW, OptimizerType::kAdamWBert, OptimizerType::kLamb,
                                           OptimizerType::kAdam, OptimizerType::kAdadelta, OptimizerType::kMuon),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(OptimizerTest, GradientScaleIsAGradientScaled) {
  Problem scaled(5), plain(5);
  const auto first = MakeOptimizer(HardOptions(GetParam()), scaled.parameters, scaled.roles);
  const auto second = MakeOptimizer(HardOptions(GetParam()), plain.parameters, plain.roles);
  scaled.DrawGradients(0);
  plain.DrawGradients(0);
  for (auto& [name, parameter] : plain.parameters) parameter.mutable_grad() *= 0.25;  // exact
  first->Step(1e-2, 0.25);
  second->Step(1e-2, 1);
  for (size_t i = 0; i < plain.parameters.size(); ++i)
    EXPECT_TRUE(torch::equal(scaled.parameters[i].second, plain.parameters[i].second)) << plain.parameters[i].first;
}

TEST_P(OptimizerTest, IsTheSameForAnyNumberOfThreads) {
  const int threads = Threads();
  std::vector<NamedTensors> results;
  std::vector<double> norms;
  for (const int count : {1, 2, 3}) {
    SetThreads(count);
    Problem problem(7);
    const auto optimizer = MakeOptimizer(HardOptions(GetParam()), problem.parameters, problem.roles);
    for (int64_t step = 0; step < 3; ++step) {
      problem.DrawGradients(step);
      norms.push_back(GradientNorm(problem.parameters));
      optimizer->Step(1e-2, ClipScale(norms.back(), 1));
    }
    results.push_back(problem.parameters);
  }
  SetThreads(threads);
  for (size_t run = 1; run < results.size(); ++run) {
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_TRUE(torch::equal(results[0][i].second, results[run][i].second)) << results[0][i].first;
    for (size_t step = 0; step < 3; ++step) EXPECT_EQ(norms[step], norms[3 * run + step]);
  }
}

TEST_P(OptimizerTest, LeavesAParameterWithoutGradientAloneAndMarksTheOthersAsChanged) {
  for (const size_t place : {0, 20}) {  // the maps are the last two
    Problem problem(9);
    problem.DrawGradients(0);
    const torch::Tensor idle = problem.parameters[place].second, busy = problem.parameters[place + 1].second;
    idle.mutable_grad().reset();
    const torch::Tensor before = idle.detach().clone();
    const auto idle_version = idle._version(), busy_version = busy._version();
    MakeOptimizer(HardOptions(GetParam()), problem.parameters, problem.roles)->Step(1e-2, 1);
    EXPECT_TRUE(torch::equal(idle.detach(), before));
    EXPECT_EQ(idle._version(), idle_version);
    EXPECT_GT(busy._version(), busy_version);
  }
}

TEST_P(OptimizerTest, GoesOnFromACopyOfItsState) {
  Problem whole(11), halves(11);
  const auto uninterrupted = MakeOptimizer(HardOptions(GetParam()), whole.parameters, whole.roles);
  auto interrupted = MakeOptimizer(HardOptions(GetParam()), halves.parameters, halves.roles);
  for (int64_t step = 0; step < 6; ++step) {
    if (step == 3) {
      auto fresh = MakeOptimizer(HardOptions(GetParam()), halves.parameters, halves.roles);
      const NamedTensors from = interrupted->State(), to = fresh->State();
      const size_t maps = GetParam() == OptimizerType::kMuon ? 2 : 0;  // have a momentum alone
      ASSERT_EQ(from.size(), 2 * halves.parameters.size() - maps);
      for (size_t i = 0; i < from.size(); ++i) {
        EXPECT_EQ(from[i].first, to[i].first);
        to[i].second.copy_(from[i].second);
      }
      fresh->set_steps(interrupted->steps());
      interrupted = std::move(fresh);
    }
    whole.DrawGradients(step);
    halves.DrawGradients(step);
    uninterrupted->Step(1e-2, 1);
    interrupted->Step(1e-2, 1);
  }
  for (size_t i = 0; i < whole.parameters.size(); ++i)
    EXPECT_TRUE(torch::equal(whole.parameters[i].second, halves.parameters[i].second)) << whole.parameters[i].first;
}

TEST(MakeOptimizer, WantsARoleForEveryParameter) {
  Problem problem(1);
  problem.roles.pop_back();
  EXPECT_EQ(testing::ErrorOf([&] { MakeOptimizer(HardOptions(), problem.parameters, problem.roles); }),
            "22 parameters and the roles of 21");
}

TEST(GradientNorm, IsTheNormOfAllGradientsTogether) {
  Problem problem(13);
  problem.DrawGradients(0);
  double sum = 0;
  for (const auto& [name, parameter] : problem.parameters)
    sum += parameter.grad().to(torch::kFloat64).square().sum().item<double>();
  EXPECT_NEAR(GradientNorm(problem.parameters), std::sqrt(sum), 1e-12 * std::sqrt(sum));
}

TEST(GradientNorm, HoldsWhatAFloatCannot) {
  NamedTensors parameters{{"x", torch::zeros({40}).requires_grad_()}};
  parameters[0].second.mutable_grad() = torch::full({40}, 1e30f);
  EXPECT_NEAR(GradientNorm(parameters), 1e30 * std::sqrt(40.0), 1e24);
}

// The order of its sum is part of what "bit for bit" means: blocks of 2¹⁵ elements, one after another.
TEST(GradientNorm, IsAddedUpByBlocksOfAllParameters) {
  Problem problem(17);
  problem.DrawGradients(3);
  double sum = 0;
  for (const auto& [name, parameter] : problem.parameters) {
    for (int64_t begin = 0; begin < parameter.numel(); begin += 1 << 15)
      sum += SumOfSquares(parameter.grad().data_ptr<float>() + begin,
                          std::min<int64_t>(1 << 15, parameter.numel() - begin));
  }
  EXPECT_EQ(GradientNorm(problem.parameters), std::sqrt(sum));
}

TEST(NormsByParameter, AreThoseOfEachWeightAndItsGradient) {
  const int threads = Threads();
  Problem problem(13);
  problem.DrawGradients(0);
  problem.parameters[4].second.mutable_grad().reset();
  std::vector<ParameterNorms> results;
  for (const int count : {1, 2, 3}) {
    SetThreads(count);
    results.push_back(NormsByParameter(problem.parameters));
  }
  SetThreads(threads);
  for (size_t i = 0; i < problem.parameters.size(); ++i) {
    const auto& [name, parameter] = problem.parameters[i];
    const double weight = parameter.detach().to(torch::kFloat64).norm().item<double>();
    const torch::Tensor grad = parameter.grad();
    const double gradient = grad.defined() ? grad.to(torch::kFloat64).norm().item<double>() : 0;
    EXPECT_NEAR(results[0].weights[i], weight, 1e-12 * weight) << name;
    EXPECT_NEAR(results[0].gradients[i], gradient, 1e-12 * gradient) << name;
  }
  double squares = 0;
  for (const double norm : results[0].gradients) squares += norm * norm;
  EXPECT_NEAR(GradientNorm(problem.parameters), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  for (const ParameterNorms& norms : results) {
    EXPECT_EQ(norms.weights, results[0].weights);
    EXPECT_EQ(norms.gradients, results[0].gradients);
  }
}

TEST(ClipScale, IsThatOfTorch) {
  EXPECT_DOUBLE_EQ(ClipScale(4, 1), 1 / (4 + 1e-6));
  EXPECT_DOUBLE_EQ(ClipScale(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(ClipScale(1e9, 0), 1);
}

TEST(AllFinite, FindsOneBadNumberAnywhere) {
  for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    for (const int64_t place : {int64_t{0}, int64_t{40000}, int64_t{70000}}) {
      NamedTensors tensors{{"x", torch::full({70001}, 1e38f)}};
      EXPECT_TRUE(AllFinite(tensors));
      tensors[0].second[place] = bad;
      EXPECT_FALSE(AllFinite(tensors)) << place;
    }
  }
}

}  // namespace
}  // namespace lshformer
