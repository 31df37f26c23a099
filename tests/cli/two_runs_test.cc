// Two runs in one folder: the second refuses, whatever it is told, and changes nothing.
#include <fmt/core.h>

#include <filesystem>
#include <future>

#include "base/folder_lock.h"
#include "cli/training_run.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TwoRunsTest : public TrainingRunTest {
 protected:
  // Every entry below the folder, with its contents.
  std::vector<std::pair<std::string, std::string>> All(const std::string& run) const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run))
      all.emplace_back(entry.path().string(), entry.is_directory() ? "" : ReadFile(entry.path().string()));
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_F(TwoRunsTest, AFolderInUseIsLeftAlone) {
  Succeeds(Pretrain("run", {"--max_steps", "5"}));
  const FolderLock lock(folder_ / "run", "test");
  ASSERT_TRUE(lock.held());
  const auto before = All("run");
  const std::string error =
      fmt::format("lshformer: --output_dir: {} is in use by process {}\n", folder_ / "run", getpid());
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{},
        {"--overwrite_output_dir"},
        {"--resume_from_checkpoint", "auto"},  // a finished run, but that is read under the lock too
        {"--resume_from_checkpoint", "auto", "--max_steps", "9"}}) {
    EXPECT_EQ(Fails(Pretrain("run", more), 1), error);
    EXPECT_EQ(Fails(Train("run", more), 1), error);
  }
  EXPECT_EQ(Fails({LSHFORMER_BINARY, "quickstart", "--output_dir", folder_ / "run"}, 1), error);
  EXPECT_EQ(Fails({LSHFORMER_BINARY, "evaluate", "--task", "fill-mask", "--model_name_or_path", folder_ / "run",
                   "--validation_file", folder_ / "none.txt", "--output_dir", folder_ / "run"},
                  1),
            error);
  EXPECT_EQ(Fails({LSHFORMER_BINARY, "tokenizer", "train", "--input", folder_ / "none.txt", "--output_dir",
                   folder_ / "run", "--overwrite_output_dir"},
                  1),
            error);
  EXPECT_EQ(All("run"), before);
  // What writes nothing needs no lock.
  Succeeds(Pretrain("run", {"--dry_run"}));
}

// A run that was killed at its very beginning leaves nothing that counts as somebody's files.
TEST_F(TwoRunsTest, TheLockOfAKilledRunIsNoLock) {
  folder_.Write(std::string("run/") + kLockFile, "2147483646\n");
  Succeeds(Pretrain("run", {"--max_steps", "1"}));
  EXPECT_FALSE(fs::exists(folder_ / ("run/" + std::string(kLockFile))));
  folder_.Write(std::string("other/") + kLockFile, "2147483646\n");
  Succeeds(Pretrain("other", {"--max_steps", "1", "--resume_from_checkpoint", "auto"}));
}

// Started at once or one after the other, with the same seed or another: one refuses, the other's result is whole.
TEST_F(TwoRunsTest, OneOfTwoRefusesAndTheOtherIsWhole) {
  Succeeds(Pretrain("seed42"));
  Succeeds(Pretrain("seed43", {"--seed", "43"}));
  int in_use = 0;
  for (const auto& [delay, second_seed, resume] :
       {std::tuple(0.0, "42", false), {0.0, "43", true}, {0.1, "43", false}, {0.3, "42", false}}) {
    SCOPED_TRACE(fmt::format("{} s, seed {}", delay, second_seed));
    fs::remove_all(folder_ / "run");
    std::vector<std::string> first = Pretrain("run"), second = Pretrain("run", {"--seed", second_seed});
    if (resume) {
      for (auto* words : {&first, &second}) words->insert(words->end(), {"--resume_from_checkpoint", "auto"});
    }
    auto other = std::async(std::launch::async, [&, wait = delay] {
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
      return RunCommand(second);
    });
    const CommandResult one = RunCommand(first), two = other.get();
    ASSERT_EQ((one.status == 0) + (two.status == 0), 1) << one.err << two.err;
    const CommandResult& refused = one.status == 0 ? two : one;
    // One that comes when the other is done finds its files.
    const bool met = refused.err.find("is in use by process") != std::string::npos;
    in_use += met;
    EXPECT_THAT(refused.err, AnyOf(HasSubstr("is in use by process"), HasSubstr("not empty"), HasSubstr("--seed: ")));
    EXPECT_EQ(refused.status, refused.err.find("--seed: ") == std::string::npos ? 1 : 2);
    const std::string winner = one.status == 0 || second_seed == std::string("42") ? "seed42" : "seed43";
    EXPECT_EQ(Weights("run"), Weights(winner));
    EXPECT_EQ(History("run"), History(winner));
    EXPECT_THAT((one.status == 0 ? one : two).err, IsEmpty());
  }
  EXPECT_GE(in_use, 1) << "no two ever met";
}

}  // namespace
}  // namespace lshformer::cli
