// What the kernel grants a process, which it is asked once for: these tests are a program of their own, in which
// nothing asks before they do.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/isa.h"

namespace lshformer::testing {
namespace {

#if defined(__x86_64__)
// Asks sigaltstack for a stack of so many bytes; 0 or errno.
int UseSignalStack(size_t bytes) {
  static std::vector<char> memory;
  memory.resize(bytes);
  stack_t stack = {};
  stack.ss_sp = memory.data();
  stack.ss_size = bytes;
  return sigaltstack(&stack, nullptr) == 0 ? 0 : errno;
}

bool ProcessorSaysAmx() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string word; file >> word;)
    if (word == "amx_tile") return true;
  return false;
}

// Each in a process of its own, which has not asked yet.
class AmxAccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ProcessorSaysAmx()) GTEST_SKIP() << "the processor lacks amx_tile";
  }
};

TEST_F(AmxAccessTest, IsRefusedToAProcessWithASmallSignalStack) {
  EXPECT_EXIT(
      {
        if (UseSignalStack(4096) != 0) _exit(2);
        const AmxAccess& access = AskForAmx();
        const bool all_else_works = SupportedIsas().front() != "amx" && ActiveAmxTiles() == AmxTiles::kNone;
        _exit(!access.granted && access.refusal.find("signal stack") != std::string::npos && all_else_works ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

// What the kernel does with threads whose alternate signal stack has no room for the tiles' state.
TEST_F(AmxAccessTest, ThenRefusesSmallSignalStacks) {
  const auto exit_after_asking = [](size_t bytes, int expected) {
    if (!AskForAmx().granted) _exit(2);
    _exit(UseSignalStack(bytes) == expected ? 0 : 1);
  };
  EXPECT_EXIT(exit_after_asking(8192, ENOMEM), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_after_asking(16384, 0), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace lshformer::testing
