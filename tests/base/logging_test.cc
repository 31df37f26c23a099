#include "base/logging.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lshformer {
namespace {

class HeldLogTest : public ::testing::Test {
 protected:
  ~HeldLogTest() override { SetUpLogging("warn", LogFormat::kText); }
  // What `work` leaves on stderr.
  template <class Work>
  static std::string Stderr(const std::string& level, const Work& work) {
    SetUpLogging(level, LogFormat::kText);
    ::testing::internal::CaptureStderr();
    work();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(HeldLogTest, WritesAtTheEndWhatWasKeptBack) {
  EXPECT_EQ(Stderr("warn",
                   [] {
                     {
                       HeldLog held;
                       spdlog::warn("first");
                       spdlog::info("not asked for");
                       held.Release();
                       spdlog::warn("second");
                     }
                     HeldLog held;
                     spdlog::warn("third");
                   }),
            "lshformer: warning: first\nlshformer: warning: second\nlshformer: warning: third\n");
}

TEST_F(HeldLogTest, AFailureDropsIt) {
  const auto fail = [] {
    try {
      HeldLog held;
      spdlog::warn("careful");
      throw std::runtime_error("no");
    } catch (const std::runtime_error&) {
      spdlog::error("failed");
    }
  };
  EXPECT_EQ(Stderr("warn", fail), "lshformer: error: failed\n");
  // Whoever asks for more than warnings wants to see how far it came.
  EXPECT_EQ(Stderr("info", fail), "lshformer: warning: careful\nlshformer: error: failed\n");
}

}  // namespace
}  // namespace lshformer
