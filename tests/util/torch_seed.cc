// Each test of a program with libtorch begins at the same random numbers, whichever ran before it: torch draws the seed
// of its generator anew in every process, and a bound that one draw in hundreds passes fails on some other day.
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lshformer {
namespace {

class TorchSeed : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { torch::manual_seed(1); }
};

const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new TorchSeed);
  return true;
}();

}  // namespace
}  // namespace lshformer
