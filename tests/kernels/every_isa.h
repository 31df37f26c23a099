// A test fixture that goes through every instruction set the machine has, in every mode of attention.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/attention.h"
#include "kernels/attention_specs.h"

namespace lshformer::testing {

using IsaAndSpec = std::tuple<std::string, AttentionSpec>;

class IsaFixture : public ::testing::TestWithParam<IsaAndSpec> {
 protected:
  void SetUp() override { ForceIsa(std::get<0>(GetParam())); }
  void TearDown() override { ForceIsa("auto"); }
  const AttentionSpec& spec() const { return std::get<1>(GetParam()); }
};

inline auto EveryIsaAndSpec() {
  return ::testing::Combine(::testing::ValuesIn(SupportedIsas()), ::testing::ValuesIn(AllSpecs()));
}

inline std::string NameOfIsaAndSpec(const ::testing::TestParamInfo<IsaAndSpec>& info) {
  return std::get<0>(info.param) + "_" + NameOf(std::get<1>(info.param));
}

}  // namespace lshformer::testing
