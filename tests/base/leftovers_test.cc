#include "base/leftovers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::TempFolder;
namespace fs = std::filesystem;

// Names of temporary files in the folder.
size_t Temporaries(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += IsTemporaryFile(entry.path().filename().string());
  return count;
}

// A process that writes a file and does not come to commit it. Returns once the temporary file is there.
pid_t StartWriter(const std::string& folder) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder + "/result.json");
    file.Write("half");
    file.Flush();
    [[maybe_unused]] const auto told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST(RemoveLeftovers, OfAProcessThatWasKilledAndOfNoneThatLives) {
  const TempFolder folder;
  const pid_t writer = StartWriter(folder.path());
  ASSERT_EQ(Temporaries(folder.path()), 1u);
  RemoveLeftovers(folder.path());
  EXPECT_EQ(Temporaries(folder.path()), 1u) << "it is still being written";
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  EXPECT_EQ(Temporaries(folder.path()), 1u);
  RemoveLeftovers(folder.path());
  EXPECT_EQ(Temporaries(folder.path()), 0u);
}

TEST(RemoveLeftovers, NotOurOwnFilesInUse) {
  TempFolder folder;
  // Left by an earlier process of our number, as in containers, beside what we are writing ourselves.
  const std::string old = folder.Write(".lshformer-" + std::to_string(getpid()) + "-123456.tmp", "old");
  AtomicFile file(folder / "result.json");
  file.Write("x");
  RemoveLeftovers(folder.path());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(Temporaries(folder.path()), 1u);
  file.Commit();
  EXPECT_EQ(folder.Read("result.json"), "x");
}

TEST(RemoveLeftovers, NothingThatOnlyLooksLikeOne) {
  TempFolder folder;
  constexpr const char* kDead = "2147483646";  // beyond the largest process number
  for (const char* name : {".lshformer-quickstart", ".lshformer-.tmp", ".lshformer-x-1.tmp", ".lshformer-0-1.tmp",
                           ".lshformer--5-1.tmp", ".lshformer-12.tmp", "result.json"})
    folder.Write(name, "kept");
  folder.Write("elsewhere", "kept");
  fs::create_symlink(folder / "elsewhere", folder / (std::string(".lshformer-") + kDead + "-1.tmp"));
  fs::create_directory(folder / (std::string(".lshformer-") + kDead + "-2.tmp"));
  const std::string held = folder.Write(std::string(".lshformer-") + kDead + "-3.tmp", "held");
  const std::string left = folder.Write(std::string(".lshformer-") + kDead + "-4.tmp", "left");
  const int lock = open(held.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  const auto entries = [&] { return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()); };
  const auto before = entries();
  RemoveLeftovers(folder.path());
  EXPECT_EQ(entries(), before - 1);
  EXPECT_FALSE(fs::exists(left));
  close(lock);
  RemoveLeftovers(folder.path());
  EXPECT_FALSE(fs::exists(held));
  RemoveLeftovers(folder / "missing");
}

TEST(RemoveStagedLeftovers, FoldersOfDeadProcessesThatNobodyHolds) {
  TempFolder folder;
  const std::string dead = "2147483646", stem = ".lshformer-out.";
  folder.Write(stem + dead + ".part/deep/file", "left");
  for (const std::string kept : {"x.part", "12a.part", "part", ".part"}) folder.Write(stem + kept + "/file", "kept");
  folder.Write("out." + dead + ".part/file", "no name of ours");
  folder.Write(".lshformer-outer." + dead + ".part/file", "of another folder");
  folder.Write(stem + std::to_string(getppid()) + ".part/file", "of a process that lives");
  folder.Write(stem + "2147483645.part", "a file");
  folder.Write(stem + "2147483644.part/file", "held");
  const std::string held = folder / (stem + "2147483644.part");
  const int lock = open(held.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  const auto entries = [&] { return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()); };
  const auto before = entries();
  EXPECT_EQ(RemoveStagedLeftovers(folder / "out"), 2147483644);
  EXPECT_EQ(entries(), before - 1);
  EXPECT_FALSE(fs::exists(folder / (stem + dead + ".part")));
  close(lock);
  EXPECT_EQ(RemoveStagedLeftovers(folder / "out"), 0);
  EXPECT_FALSE(fs::exists(held));
  EXPECT_EQ(entries(), before - 2);
}

// What is made now has a name that is found when its process is gone, and that a file system takes.
TEST(UnfinishedName, IsBesideTheFolderAndTheSameForAll) {
  EXPECT_EQ(UnfinishedName("a/out"), "a/.lshformer-out.unfinished");
  EXPECT_LE(UnfinishedName(std::string(255, 'x')).size(), 255u);
  // It outlives the process, and so is no leftover.
  TempFolder folder;
  folder.Write(".lshformer-out.unfinished/file", "kept");
  EXPECT_EQ(RemoveStagedLeftovers(folder / "out"), 0);
  EXPECT_EQ(folder.Read(".lshformer-out.unfinished/file"), "kept");
}

TEST(StagedName, IsBesideTheFolder) {
  EXPECT_EQ(StagedName("a/out"), "a/.lshformer-out." + std::to_string(getpid()) + ".part");
  EXPECT_LE(StagedName(std::string(255, 'x')).size(), 255u);
}

}  // namespace
}  // namespace lshformer
