// A test fixture that goes through every instruction set the machine has, and operands in bfloat16, in every mode of
// attention.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/attention.h"
#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"

namespace lshformer::testing {

using SpecAndIsa = std::tuple<AttentionSpec, std::string>;

// Stands for the best instruction set with operands in bfloat16.
inline const std::string kBFloat16Name = "bfloat16";

class IsaFixture : public ::testing::TestWithParam<SpecAndIsa> {
 protected:
  void SetUp() override {
    const std::string& isa = std::get<1>(GetParam());
    if (isa != kBFloat16Name) {
      ForceIsa(isa);
    } else if (Supports(Operands::kBFloat16)) {
      operands_ = Operands::kBFloat16;
    } else {
      GTEST_SKIP() << "this CPU has no AVX512_BF16";
    }
  }
  void TearDown() override { ForceIsa("auto"); }
  const AttentionSpec& spec() const { return std::get<0>(GetParam()); }
  // The case with the operands to be tested; its numbers are rounded to them, so that the oracle gets the same.
  AttentionCase WithOperands(AttentionCase c) const {
    c.operands = operands_;
    if (operands_ == Operands::kBFloat16) RoundToBFloat16(c);
    return c;
  }

 private:
  Operands operands_ = Operands::kFloat32;
};

inline std::vector<std::string> IsasAndBFloat16() {
  std::vector<std::string> names = SupportedIsas();
  names.push_back(kBFloat16Name);
  return names;
}

// All instruction sets of a mode one after the other: they share one answer of the oracle (ExpectAgrees).
inline auto EverySpecAndIsa() {
  return ::testing::Combine(::testing::ValuesIn(AllSpecs()), ::testing::ValuesIn(IsasAndBFloat16()));
}

inline std::string NameOfSpecAndIsa(const ::testing::TestParamInfo<SpecAndIsa>& info) {
  return std::get<1>(info.param) + "_" + NameOf(std::get<0>(info.param));
}

}  // namespace lshformer::testing
