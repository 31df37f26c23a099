// Products in AMX tiles on any machine.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernels/attention.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/matmul_precision.h"

namespace lshformer::testing {

// The model of tiles, on the best instruction set without them, so that the other side is multiply-add.
class InAmxModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> isas = SupportedIsas();
    ForceIsa(isas.front() == "amx" ? isas[1] : isas.front());
    UseAmxModel(true);
  }
  void TearDown() override {
    UseAmxModel(false);
    SetMatmulPrecision(MatmulPrecision::kHighest);
    ForceIsa("auto");
    SetThreads(HardwareThreads());
  }
};

}  // namespace lshformer::testing
