#include "kernels/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "util/command.h"
#include "util/errors.h"

namespace lshformer::testing {
namespace {

using ::testing::HasSubstr;

TEST(RequirePrecision, AttentionNeedsTheInstructionsToo) {
  if (!SupportsProducts(Precision::kBFloat16)) GTEST_SKIP() << "this CPU has no instructions for bfloat16";
  for (const std::string& isa : SupportedIsas()) {
    ForceIsa(isa);
    const std::string error = ErrorOf([] { RequirePrecision(Precision::kBFloat16, "--bf16"); });
    if (isa == "amx" || isa.starts_with("avx512")) {
      EXPECT_NO_THROW(RequirePrecision(Precision::kBFloat16, "--bf16"));
    } else {
      EXPECT_THAT(error, HasSubstr("--bf16: attention in bfloat16 needs amx, or avx512 on a CPU with AVX512_BF16, the "
                                   "instruction set in force is " +
                                   isa));
    }
    EXPECT_EQ(ErrorOf([] { RequirePrecision(Precision::kInt8, "--int8"); }).find("attention"), std::string::npos);
  }
  ForceIsa("auto");
}

// Run by the next test where oneDNN is told of an older CPU.
TEST(RequirePrecision, RefusesWhatTheCpuHasNot) {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr) GTEST_SKIP() << "oneDNN is not limited";
  std::printf("%s\n%s\n", ErrorOf([] { RequirePrecision(Precision::kBFloat16, "--bf16"); }).c_str(),
              ErrorOf([] { RequirePrecision(Precision::kInt8, "--int8"); }).c_str());
}

TEST(RequirePrecision, SaysWhatEmulationWouldCost) {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) GTEST_SKIP() << "oneDNN is limited already";
  for (const std::string isa : {"AVX512_CORE", "AVX2"}) {
    setenv("ONEDNN_MAX_CPU_ISA", isa.c_str(), 1);
    const auto result = RunCommand({"/proc/self/exe", "--gtest_filter=RequirePrecision.RefusesWhatTheCpuHasNot"});
    unsetenv("ONEDNN_MAX_CPU_ISA");
    EXPECT_THAT(result.out, HasSubstr("--bf16: this CPU has no instructions for bfloat16 products"));
    EXPECT_THAT(result.out, HasSubstr("--int8: this CPU has no instructions for sums of 8-bit products"));
    EXPECT_THAT(result.out,
                ::testing::AnyOf(HasSubstr("times as long as float32"), HasSubstr("cannot emulate them here")));
  }
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8})
    if (SupportsProducts(precision)) RequirePrecision(precision, "--flag");
}

}  // namespace
}  // namespace lshformer::testing
