#include "base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/signals.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

// Runs `action` in a child process; its exit status, or 128 + signal.
template <class Action>
int InChild(const Action& action) {
  const pid_t child = fork();
  if (child == 0) _exit(action());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(ReadFile, WholeFiles) {
  TempFolder folder;
  std::string big(3'000'000, 'x');
  big[1'234'567] = '\0';
  EXPECT_EQ(ReadFile(folder.Write("big", big)), big);
  EXPECT_EQ(ReadFile(folder.Write("empty", "")), "");
  EXPECT_EQ(ReadFile("/dev/null"), "");
  EXPECT_FALSE(ReadFile("/proc/self/status").empty());  // says it has 0 bytes
}

TEST(ReadFile, SaysWhatIsWrong) {
  TempFolder folder;
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder / "none"); }), folder / "none" + ": cannot open: No such file or directory");
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder.path()); }), folder.path() + ": is a folder, expected a file");
  const std::string path = folder.Write("long", "12345");
  EXPECT_EQ(ErrorOf([&] { ReadFile(path, 4); }), path + ": has more than 4 bytes");
  EXPECT_EQ(ReadFile(path, 5), "12345");
  EXPECT_EQ(ErrorOf([&] { ReadFile("/dev/zero", 1000); }), "/dev/zero: has more than 1000 bytes");
  EXPECT_THAT(ErrorOf([&] { ReadFile(""); }), HasSubstr("cannot open"));
  EXPECT_THAT(ErrorOf([&] { ReadFile("a\nb"); }), HasSubstr("a\\x0Ab: cannot open"));
}

TEST(ReadFile, Pipes) {
  TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    const int file = open(pipe.c_str(), O_WRONLY);
    for (const char* part : {"one ", "two ", "three"}) {
      EXPECT_GT(write(file, part, std::string_view(part).size()), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    close(file);
  });
  EXPECT_EQ(ReadFile(pipe), "one two three");
  writer.join();
}

TEST(AtomicFile, ReplacesOnlyAtCommit) {
  TempFolder folder;
  const std::string path = folder.Write("f", "old");
  {
    AtomicFile file(path);
    file.Write("new ");
    file.Write(std::string(1'000'000, 'x'));
    file.Flush();
    EXPECT_EQ(folder.Read("f"), "old");
    file.Write(" end");
    file.Commit();
  }
  EXPECT_EQ(folder.Read("f"), "new " + std::string(1'000'000, 'x') + " end");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, LeavesNothingBehindWithoutCommit) {
  TempFolder folder;
  const std::string path = folder.Write("f", "old");
  {
    AtomicFile file(path), other(folder / "g");
    file.Write("new");
    EXPECT_EQ(folder.entries(), 3u);
  }
  EXPECT_EQ(folder.Read("f"), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, KilledMidwayLeavesTheOldFile) {
  TempFolder folder;
  const std::string path = folder.Write("f", "old");
  EXPECT_EQ(InChild([&] {
              AtomicFile file(path);
              file.Write(std::string(1'000'000, 'x'));
              file.Flush();
              kill(getpid(), SIGKILL);
              return 0;
            }),
            128 + SIGKILL);
  EXPECT_EQ(folder.Read("f"), "old");
  WriteFileAtomically(path, "new");  // what the dead process left is not in the way
  EXPECT_EQ(folder.Read("f"), "new");
}

TEST(AtomicFile, Permissions) {
  TempFolder folder;
  const mode_t before = umask(027);
  WriteFileAtomically(folder / "fresh", "x");
  umask(before);
  EXPECT_EQ(ModeOf(folder / "fresh"), 0640u);
  const std::string path = folder.Write("script", "old");
  ASSERT_EQ(chmod(path.c_str(), 0751), 0);
  WriteFileAtomically(path, "new");
  EXPECT_EQ(ModeOf(path), 0751u);
}

TEST(AtomicFile, FollowsLinks) {
  TempFolder folder;
  folder.Write("real/target", "old");
  fs::create_symlink("real/target", folder / "link");
  fs::create_symlink("link", folder / "link2");
  fs::create_symlink("real/none", folder / "dangling");
  fs::create_symlink("loop", folder / "loop");
  WriteFileAtomically(folder / "link2", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link2") && fs::is_symlink(folder / "link"));
  EXPECT_EQ(folder.Read("real/target"), "new");
  WriteFileAtomically(folder / "dangling", "made");
  EXPECT_EQ(folder.Read("real/none"), "made");
  EXPECT_EQ(ErrorOf([&] { AtomicFile file(folder / "loop"); }),
            folder / "loop" + ": cannot follow the link: too many links");
}

TEST(AtomicFile, LongestName) {
  TempFolder folder;
  const std::string name(255, 'n');
  WriteFileAtomically(folder / name, "x");
  EXPECT_EQ(folder.Read(name), "x");
}

TEST(AtomicFile, SaysWhatIsWrong) {
  TempFolder folder;
  EXPECT_EQ(ErrorOf([&] { AtomicFile file(folder / "no/f"); }),
            folder / "no/f" + ": cannot write: No such file or directory");
  EXPECT_EQ(ErrorOf([&] { AtomicFile file(folder.path()); }), folder.path() + ": is a folder, expected a file");
  EXPECT_EQ(ErrorOf([&] { AtomicFile file(""); }), "the name of an output file is empty");
  EXPECT_EQ(ErrorOf([&] { AtomicFile file(folder / "f.gz"); }),
            folder / "f.gz" + ": files are written plain; use - and pipe through gzip");
  EXPECT_EQ(ErrorOf([&] { AtomicFile file("/proc/nope"); }), "/proc/nope: cannot write: No such file or directory");
}

TEST(AtomicFile, RespectsReadOnlyFilesAndFolders) {
  TempFolder folder;
  const std::string path = folder.Write("f", "old");
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  const auto refused = [](const std::string& name) {
    return ErrorOf([&] { AtomicFile file(name); }) == name + ": cannot write: Permission denied";
  };
  const int status = InChild([&] {
    chmod(folder.path().c_str(), 0777);
    constexpr uid_t kNobody = 65534;  // root may write everywhere
    if (geteuid() == 0 && seteuid(kNobody) != 0) return 9;
    const bool file_refused = refused(path);
    return file_refused ? 3 : 4;
  });
  EXPECT_EQ(status, 3);
  EXPECT_EQ(InChild([&] {
              chmod(folder.path().c_str(), 0555);
              constexpr uid_t kNobody = 65534;
              if (geteuid() == 0 && seteuid(kNobody) != 0) return 9;
              return refused(folder / "fresh") ? 3 : 4;
            }),
            3);
  EXPECT_EQ(folder.Read("f"), "old");
  chmod(folder.path().c_str(), 0755);
}

TEST(AtomicFile, DiskFullOnADevice) {
  AtomicFile file("/dev/full");
  file.Write("small, so it stays in the buffer until");
  EXPECT_EQ(ErrorOf([&] { file.Commit(); }), "/dev/full: cannot write: disk full");
  AtomicFile other("/dev/full");
  EXPECT_EQ(ErrorOf([&] { other.Write(std::string(1'000'000, 'x')); }), "/dev/full: cannot write: disk full");
}

// A limit on file size fails a write midway as a full disk does; a file system of our own would need root.
TEST(AtomicFile, FailsMidwayWithTheOldFileWhole) {
  TempFolder folder;
  const std::string path = folder.Write("f", "old");
  const int status = InChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{300'000, 300'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      WriteFileAtomically(path, std::string(1'000'000, 'x'));
    } catch (const Error& error) {
      return std::string(error.what()) == path + ": cannot write: File too large" ? 3 : 4;
    }
    return 5;
  });
  EXPECT_EQ(status, 3);
  EXPECT_EQ(folder.Read("f"), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, PipesAreWrittenDirectlyAndMayClose) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string path = "/dev/fd/" + std::to_string(ends[1]);
  AtomicFile file(path);
  file.Write("line\n");
  file.Flush();
  char got[16] = {};
  EXPECT_EQ(read(ends[0], got, sizeof(got)), 5);
  EXPECT_STREQ(got, "line\n");
  close(ends[0]);
  const auto before = signal(SIGPIPE, SIG_IGN);
  file.Write("lost\n");
  EXPECT_EQ(ErrorOf([&] { file.Flush(); }), path + ": cannot write: the reader closed the pipe");
  signal(SIGPIPE, before);
  close(ends[1]);
}

// `lshformer … --output /dev/stdout >> all.txt` must not cut or replace all.txt.
TEST(AtomicFile, StandardOutputThatIsAFileIsAppendedTo) {
  for (const char* name : {"-", "/dev/stdout", "/proc/self/fd/1"}) {
    TempFolder folder;
    const std::string path = folder.Write("all", "before\n");
    EXPECT_EQ(InChild([&] {
                const int file = open(path.c_str(), O_WRONLY | O_APPEND);
                dup2(file, STDOUT_FILENO);
                WriteFileAtomically(name, "line\n");
                return 0;
              }),
              0);
    EXPECT_EQ(folder.Read("all"), "before\nline\n") << name;
    EXPECT_EQ(folder.entries(), 1u);
  }
}

TEST(MakeFolder, WithParentsAndTwice) {
  TempFolder folder;
  MakeFolder(folder / "a/b/c");
  MakeFolder(folder / "a/b/c");
  MakeFolder(folder / "d/");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  folder.Write("file", "");
  EXPECT_EQ(ErrorOf([&] { MakeFolder(folder / "file"); }), folder / "file" + ": is a file, expected a folder");
  EXPECT_THAT(ErrorOf([&] { MakeFolder(folder / "file/below"); }),
              HasSubstr("cannot make the folder: Not a directory"));
  EXPECT_THAT(ErrorOf([&] { MakeFolder("/proc/nope"); }), HasSubstr("/proc/nope: cannot make the folder: "));
  EXPECT_THAT(ErrorOf([&] { MakeFolder(""); }), HasSubstr("cannot make the folder"));
}

TEST(IsEmptyFolder, MissingEmptyAndFull) {
  TempFolder folder;
  EXPECT_TRUE(IsEmptyFolder(folder / "none"));
  EXPECT_TRUE(IsEmptyFolder(folder.path()));
  const std::string path = folder.Write(".hidden", "");
  EXPECT_FALSE(IsEmptyFolder(folder.path()));
  EXPECT_EQ(ErrorOf([&] { IsEmptyFolder(path); }), path + ": is a file, expected a folder");
}

// A second signal ends the process at once, and still leaves no temporary file.
TEST(AtomicFile, TwoSignalsLeaveNoTemporaryFile) {
  TempFolder folder;
  EXPECT_EQ(InChild([&] {
              InstallSignalHandlers();
              AtomicFile first(folder / "first"), second(folder / "second"), third(folder / "third");
              first.Write("whole");
              first.Commit();
              second.Write("half");
              second.Flush();
              raise(SIGINT);
              raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
  EXPECT_EQ(names, std::vector<std::string>{"first"});
}

}  // namespace
}  // namespace lshformer
