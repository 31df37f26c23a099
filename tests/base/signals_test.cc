#include "base/signals.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::TempFolder;

// Maps a file of two pages, shortens it to nothing and reads it.
void ReadBeyondTheEnd(const std::string& path, bool guarded) {
  const size_t bytes = 2 * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const int file = open(path.c_str(), O_RDWR);
  const void* mapping = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  InstallSignalHandlers();
  {
    const GuardedMapping gone(mapping, bytes, "another");  // its place is free again
  }
  std::optional<GuardedMapping> guard;
  if (guarded) guard.emplace(mapping, bytes, path);
  if (ftruncate(file, 0) != 0) _exit(3);
  const volatile char byte = static_cast<const volatile char*>(mapping)[bytes - 1];
  _exit(byte == 0 ? 4 : 5);
}

TEST(GuardedMappingDeathTest, AShortenedFileIsOneLineAndStatusOne) {
  const TempFolder folder;
  const std::string path = folder.Write("weights", std::string(2 * static_cast<size_t>(sysconf(_SC_PAGESIZE)), 'x'));
  EXPECT_EXIT(ReadBeyondTheEnd(path, true), ::testing::ExitedWithCode(1),
              "lshformer: .*weights: became shorter while it was being used\n$");
}

TEST(GuardedMappingDeathTest, OthersEndAsBefore) {
  const TempFolder folder;
  const std::string path = folder.Write("weights", std::string(2 * static_cast<size_t>(sysconf(_SC_PAGESIZE)), 'x'));
  EXPECT_EXIT(ReadBeyondTheEnd(path, false), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace lshformer
