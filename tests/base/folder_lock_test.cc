#include "base/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "base/error.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
namespace fs = std::filesystem;

// A process that holds the folder until it is killed. Returns once it does.
pid_t StartHolder(const std::string& folder) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder, "test");
    [[maybe_unused]] const auto told = write(ready[1], lock.held() ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char answer = 0;
  EXPECT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST(FolderLock, TheSecondIsToldWhoHoldsIt) {
  const TempFolder folder;
  const std::string path = folder / "a/run";
  const pid_t holder = StartHolder(path);
  EXPECT_EQ(ErrorOf([&] { FolderLock lock(path, "--output_dir"); }),
            fmt::format("--output_dir: {} is in use by process {}", path, holder));
  EXPECT_TRUE(IsEmptyButForLock(path));
  // Killed, it leaves its file, and that is no lock; who comes next takes it over and leaves none.
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_TRUE(fs::exists(path + "/" + kLockFile));
  {
    const FolderLock lock(path, "--output_dir");
    EXPECT_TRUE(lock.held());
    EXPECT_EQ(folder.Read(std::string("a/run/") + kLockFile), fmt::format("{}\n", getpid()));
    EXPECT_EQ(ErrorOf([&] { FolderLock second(path, "x"); }),
              fmt::format("x: {} is in use by process {}", path, getpid()));
  }
  EXPECT_TRUE(fs::is_empty(path));
}

TEST(FolderLock, LeavesNoEmptyFolderThatItMade) {
  const TempFolder folder;
  { const FolderLock lock(folder / "a/b/run", "x"); }
  EXPECT_EQ(folder.entries(), 0u);
  {
    const FolderLock lock(folder / "a/b/run", "x");
    folder.Write("a/result", "kept");
  }
  EXPECT_FALSE(fs::exists(folder / "a/b"));
  EXPECT_EQ(folder.Read("a/result"), "kept");
  fs::create_directory(folder / "old");
  { const FolderLock lock(folder / "old", "x"); }
  EXPECT_TRUE(fs::exists(folder / "old"));
}

TEST(FolderLock, WithoutAFileNothingIsHeld) {
  const TempFolder folder;
  folder.Write(std::string("run/") + kLockFile + "/mine", "");
  const FolderLock first(folder / "run", "x"), second(folder / "run", "x");
  EXPECT_FALSE(first.held());
  EXPECT_FALSE(second.held());
  EXPECT_NE(ErrorOf([&] { FolderLock lock(folder.Write("file", ""), "x"); }), "(nothing thrown)");
}

// Whoever gets in is alone: it makes a file that must not be there yet. They come and go, so that the lock's file and
// the folder itself are made and deleted all the time.
TEST(FolderLock, OneAtATimeAlsoWhereTheFolderComesAndGoes) {
  const TempFolder folder;
  const std::string path = folder / "run", alone = folder / "alone";
  constexpr int kProcesses = 6, kTimes = 300, kMostTimes = 1'000'000;
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    int held = 0;
    for (int i = 0; i < kTimes || (held == 0 && i < kMostTimes); ++i) {
      try {
        const FolderLock lock(path, "x");
        if (!lock.held()) _exit(2);
        const int file = open(alone.c_str(), O_CREAT | O_EXCL | O_RDWR, 0666);
        if (file < 0) _exit(3);
        close(file);
        unlink(alone.c_str());
        ++held;
      } catch (const Error& error) {
        if (std::string(error.what()).find("is in use by") == std::string::npos) _exit(4);
      }
    }
    _exit(held > 0 ? 0 : 5);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "2: no lock, 3: not alone, 4: another error, 5: never got in";
  }
  EXPECT_FALSE(fs::exists(alone));
}

}  // namespace
}  // namespace lshformer
