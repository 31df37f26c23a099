// A test that runs once on each instruction set that the machine has.
//
//   class RowsTest : public EveryIsa {};
//   INSTANTIATE_TEST_SUITE_P(Isas, RowsTest, AllIsas(), NameOfIsa);
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "kernels/attention.h"

namespace lshformer::testing {

class EveryIsa : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceIsa(GetParam()); }
  void TearDown() override { ForceIsa("auto"); }
};

inline auto AllIsas() { return ::testing::ValuesIn(SupportedIsas()); }
inline std::string NameOfIsa(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace lshformer::testing
