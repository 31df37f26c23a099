// What is Muon's alone; what holds of every optimizer is tested in optimizer_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/ref/orthogonalize.h"
#include "train/optimizer.h"
#include "util/errors.h"

namespace lshformer {
namespace {

TrainingOptions MuonOptions() {
  TrainingOptions options;
  options.optim = OptimizerType::kMuon;
  return options;
}

std::vector<double> InDouble(const torch::Tensor& x) {
  const torch::Tensor copy = x.detach().to(torch::kFloat64).contiguous();
  return {copy.data_ptr<double>(), copy.data_ptr<double>() + copy.numel()};
}

// A wide map, a tall one that does not decay, and two parameters that are none.
struct MapsAndOthers {
  NamedTensors parameters;
  std::vector<ParameterRole> roles{
      {.layer_map = true}, {.decays = false}, {.decays = false, .layer_map = true}, {.embedding = true}};
  MapsAndOthers() {
    torch::manual_seed(3);
    for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
             {"wide", {24, 70}}, {"bias", {77}}, {"tall", {130, 40}}, {"table", {90, 12}}})
      parameters.emplace_back(name, torch::randn(shape).requires_grad_());
  }
  // Over many magnitudes, equal for equal steps.
  void DrawGradients(int64_t step) {
    torch::manual_seed(1000 + static_cast<uint64_t>(step));
    for (auto& [name, parameter] : parameters)
      parameter.mutable_grad() = torch::randn_like(parameter) * torch::pow(10, torch::randn_like(parameter));
  }
};

// The formula of a map in double.
struct MapInDouble {
  int64_t rows, columns;
  double decay;
  std::vector<double> weights, momentum;
  MapInDouble(const torch::Tensor& map, double weight_decay)
      : rows(map.size(0)),
        columns(map.size(1)),
        decay(weight_decay),
        weights(InDouble(map)),
        momentum(weights.size()) {}
  void Step(const std::vector<double>& gradient, double rate) {
    std::vector<double> direction(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) {
      momentum[i] = 0.95 * momentum[i] + 0.05 * gradient[i];
      direction[i] = 0.95 * momentum[i] + 0.05 * gradient[i];
    }
    direction = ref::Orthogonalize(rows, columns, direction);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (size_t i = 0; i < direction.size(); ++i)
      weights[i] = (1 - rate * decay) * weights[i] - rate * scale * direction[i];
  }
};

// What is no layer's map goes as adamw takes it, to the bit.
TEST(Muon, FollowsItsFormulaAndAdamWElsewhere) {
  TrainingOptions options = MuonOptions();
  options.weight_decay = 0.1, options.adam_beta1 = 0.8, options.adam_beta2 = 0.98, options.adam_epsilon = 1e-6;
  TrainingOptions plain = options;
  plain.optim = OptimizerType::kAdamW;
  MapsAndOthers ours, theirs;
  const auto muon = MakeOptimizer(options, ours.parameters, ours.roles);
  const auto adamw = MakeOptimizer(plain, theirs.parameters, theirs.roles);
  const auto& parameters = ours.parameters;
  MapInDouble wide(parameters[0].second, options.weight_decay), tall(parameters[2].second, 0);
  constexpr int64_t kSteps = 5;
  constexpr double kRate = 1e-2, kScale = 0.5;
  for (int64_t step = 0; step < kSteps; ++step) {
    ours.DrawGradients(step);
    theirs.DrawGradients(step);
    muon->Step(kRate, kScale);
    adamw->Step(kRate, kScale);
    wide.Step(InDouble(kScale * parameters[0].second.grad()), kRate);
    tall.Step(InDouble(kScale * parameters[2].second.grad()), kRate);
  }
  EXPECT_EQ(muon->steps(), kSteps);
  for (const size_t other : {1, 3})
    EXPECT_TRUE(torch::equal(parameters[other].second, theirs.parameters[other].second)) << parameters[other].first;
  for (const auto& [place, want] : {std::pair<size_t, const MapInDouble*>{0, &wide}, {2, &tall}}) {
    const std::vector<double> got = InDouble(parameters[place].second);
    // Roundings of the weights, and of steps of about 0.2 · kRate, which Newton–Schulz takes up 485 times at most.
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want->weights[i],
                  kSteps * std::numeric_limits<float>::epsilon() * (4 * std::abs(got[i]) + 4 * 485 * 0.2 * kRate))
          << parameters[place].first << " " << i;
  }
}

TEST(Muon, KeepsOneNumberForEachWeightOfAMap) {
  const MapsAndOthers problem;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : MakeOptimizer(MuonOptions(), problem.parameters, problem.roles)->State())
    names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("momentum_buffer.wide", "exp_avg.bias", "exp_avg_sq.bias",
                                            "momentum_buffer.tall", "exp_avg.table", "exp_avg_sq.table"));
}

// A fifth of the rate, whatever the shape and the gradient's size: about as AdamW's.
TEST(Muon, StepsAreAsLongAsTheRateSays) {
  torch::manual_seed(1);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{64, 64}, {256, 64}, {64, 256}}) {
    const NamedTensors parameters{{"map", torch::zeros({rows, columns}).requires_grad_()}};
    parameters[0].second.mutable_grad() = torch::randn({rows, columns}) * 1e-3;
    MakeOptimizer(MuonOptions(), parameters, {{.layer_map = true}})->Step(0.5, 1);
    EXPECT_NEAR(parameters[0].second.detach().square().mean().sqrt().item<double>(), 0.5 * 0.2, 0.02);
  }
}

TEST(Muon, WithoutAnUpdateNothingMoves) {
  const NamedTensors parameters{{"map", torch::ones({30, 20}).requires_grad_()}};
  parameters[0].second.mutable_grad() = torch::zeros({30, 20});
  MakeOptimizer(MuonOptions(), parameters, {{.layer_map = true}})->Step(1, 1);
  EXPECT_TRUE(parameters[0].second.detach().equal(torch::ones({30, 20})));
}

TEST(Muon, WantsAMapOfALayer) {
  const NamedTensors parameters{{"table", torch::ones({30, 20}).requires_grad_()}};
  EXPECT_EQ(testing::ErrorOf([&] { MakeOptimizer(MuonOptions(), parameters, {{.embedding = true}}); }),
            "optim: muon is for the maps of attention and feed-forward, of which there are none");
}

}  // namespace
}  // namespace lshformer
