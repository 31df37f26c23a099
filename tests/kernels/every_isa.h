// A test fixture that goes through every instruction set the machine has, and operands in bfloat16, in every mode of
// attention.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/execution.h"
#include "kernels/isa.h"
#include "util/sanitized.h"

namespace lshformer::testing {

using SpecAndIsa = std::tuple<AttentionSpec, std::string>;

// Stand for operands in bfloat16: in vectors of AVX-512, in AMX tiles by their instructions, and by their model on
// the best instruction set and on the least.
inline const std::string kBFloat16Name = "bfloat16", kAmxName = "tiles", kAmxModelName = "tile_model",
                         kLeastAmxModelName = "least_tile_model";

inline std::string BestAvx512() {
  for (const std::string& isa : SupportedIsas()) {
    if (isa.starts_with("avx512")) return isa;
  }
  return "auto";
}

class IsaFixture : public ::testing::TestWithParam<SpecAndIsa> {
 protected:
  void SetUp() override {
    const std::string& isa = std::get<1>(GetParam());
    const bool model = isa == kAmxModelName || isa == kLeastAmxModelName;
    operands_ = model || isa == kAmxName || isa == kBFloat16Name ? Operands::kBFloat16 : Operands::kFloat32;
    if (operands_ == Operands::kFloat32) ForceIsa(isa);
    if (isa == kBFloat16Name) ForceIsa(BestAvx512());
    if (isa == kLeastAmxModelName) ForceIsa(SupportedIsas().back());
    UseAmxModel(model);
    if (isa == kAmxName && ActiveAmxTiles() != AmxTiles::kInstructions) GTEST_SKIP() << WhyNoAmx();
    if (!Supports(operands_)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  }
  void TearDown() override {
    UseAmxModel(false);
    ForceIsa("auto");
  }
  const AttentionSpec& spec() const { return std::get<0>(GetParam()); }
  // The case with the operands to be tested; its numbers are rounded to them, so that the oracle gets the same.
  AttentionCase WithOperands(AttentionCase c) const {
    c.operands = operands_;
    c.in_amx_tiles = operands_ == Operands::kBFloat16 && ActiveAmxTiles() != AmxTiles::kNone;
    if (operands_ == Operands::kBFloat16) RoundToBFloat16(c);
    return c;
  }

 private:
  Operands operands_ = Operands::kFloat32;
};

inline std::vector<std::string> IsasAndBFloat16() {
  std::vector<std::string> names = SupportedIsas();
  names.insert(names.end(), {kBFloat16Name, kAmxName, kAmxModelName});
  if (!kSanitized) names.push_back(kLeastAmxModelName);  // else the model's memory is seen once
  return names;
}

// All instruction sets of a mode one after the other: they share one answer of the oracle (ExpectAgrees).
inline auto EverySpecAndIsa() {
  return ::testing::Combine(::testing::ValuesIn(FewerIfSanitized(AllSpecs(), 3)),
                            ::testing::ValuesIn(IsasAndBFloat16()));
}

inline std::string NameOfSpecAndIsa(const ::testing::TestParamInfo<SpecAndIsa>& info) {
  return std::get<1>(info.param) + "_" + NameOf(std::get<0>(info.param));
}

}  // namespace lshformer::testing
