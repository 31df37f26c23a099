#include "nn/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;

ParameterMap TwoMaps() {
  ParameterMap parameters;
  torch::manual_seed(1);
  for (const char* name : {"first", "second"}) {
    parameters[std::string(name) + ".weight"] = torch::randn({5, 3}).requires_grad_();
    parameters[std::string(name) + ".bias"] = torch::randn({5}).requires_grad_();
  }
  return parameters;
}

TEST(ParameterMap, NamesWhatIsMissing) {
  EXPECT_EQ(ErrorOf([] { TwoMaps().Get("third.weight"); }), "the model has no parameter \"third.weight\"");
  EXPECT_EQ(ErrorOf([] { TwoMaps().LinearOf("third"); }), "the model has no parameter \"third.weight\"");
}

// Layers that share weights, as ALBERT's, pack them once.
TEST(ParameterMap, MapsOfTheSameTensorsShareTheirPackedForm) {
  ParameterMap parameters = TwoMaps();
  parameters["tied.weight"] = parameters.Get("first.weight");
  parameters["tied.bias"] = parameters.Get("first.bias");
  const Linear layer = parameters.LinearOf("first"), again = parameters.LinearOf("first"),
               tied = parameters.LinearOf("tied"), other = parameters.LinearOf("second");
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::randn({4, 3});
  EXPECT_EQ(layer.packed(), nullptr);
  const torch::Tensor y = layer(x);
  const auto packed = layer.packed();
  ASSERT_NE(packed, nullptr);
  for (const Linear* same : {&again, &tied}) {
    EXPECT_EQ(same->packed(), packed);
    EXPECT_TRUE((*same)(x).equal(y));
    EXPECT_EQ(same->packed(), packed) << "packed again";
  }
  EXPECT_EQ(other.packed(), nullptr);
  // Side by side they are another map.
  const Linear both = parameters.LinearOf(std::vector<std::string>{"first", "second"});
  EXPECT_EQ(both(x).size(1), 10);
  EXPECT_NE(both.packed(), packed);
  EXPECT_EQ(parameters.LinearOf(std::vector<std::string>{"tied", "second"}).packed(), both.packed());
}

TEST(ParameterMap, AMapMayHaveNoBias) {
  ParameterMap parameters = TwoMaps();
  parameters["third.weight"] = torch::randn({5, 3}).requires_grad_();
  const torch::Tensor x = torch::randn({4, 3}), w = parameters.Get("third.weight");
  const Linear map = parameters.LinearOf("third");
  EXPECT_TRUE(torch::allclose(map(x), x.matmul(w.t()), 1e-5, 1e-6));
  map(x).sum().backward();
  EXPECT_TRUE(torch::allclose(w.grad(), x.sum(0).expand({5, 3}), 1e-5, 1e-6));
  const torch::NoGradGuard no_grad;
  map(x);
  EXPECT_EQ(parameters.LinearOf("third").packed(), map.packed());
  const std::vector<std::string> both{"third", "first"};
  EXPECT_TRUE(torch::allclose(parameters.LinearOf(both)(x).slice(1, 0, 5), map(x), 1e-5, 1e-6));
}

}  // namespace
}  // namespace lshformer
