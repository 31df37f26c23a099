// A run in place of an older one: what goes, what must not, and what a kill in between leaves.
#include <filesystem>

#include "cli/training_run.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ReplacedRunTest : public TrainingRunTest {};

// What is to be read must outlive the older run that goes.
TEST_F(ReplacedRunTest, AnInputInWhatIsReplacedIsRefused) {
  Succeeds(Pretrain("run", {"--max_steps", "10"}));
  folder_.Write("run/checkpoint-5/text.txt", folder_.Read("text.txt"));
  const auto train = [&](const std::string& model) {
    return std::vector<std::string>{LSHFORMER_BINARY,        "train",
                                    "--log_level",           "error",
                                    "--train_file",          folder_ / "glue/train.tsv",
                                    "--max_steps",           "1",
                                    "--model_name_or_path",  folder_ / model,
                                    "--output_dir",          folder_ / "run",
                                    "--overwrite_output_dir"};
  };
  EXPECT_THAT(Fails(train("run/checkpoint-10"), 1),
              AllOf(HasSubstr("--model_name_or_path "), HasSubstr("checkpoint-10: would be deleted")));
  EXPECT_THAT(
      Fails(Pretrain("run", {"--overwrite_output_dir", "--train_file", folder_ / "run/checkpoint-5/text.txt"}), 1),
      AllOf(HasSubstr("--train_file "), HasSubstr("text.txt: would be deleted")));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoint-10/model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoint-5/text.txt"));
  EXPECT_TRUE(fs::exists(folder_ / "run/trainer_state.json"));
  // The finished model itself is replaced by what is made of it.
  Succeeds(train("run"));
}

// Killed in the middle, a run that replaces a finished one is not taken for that one; and half a checkpoint goes when
// it is resumed.
TEST_F(ReplacedRunTest, AKilledReplacementIsNoFinishedRun) {
  Succeeds(Pretrain("run", {"--max_steps", "5"}));
  const CommandResult killed =
      Interrupt(Pretrain("run", {"--seed", "43", "--overwrite_output_dir"}), SIGKILL, std::chrono::minutes(2),
                [&] { return fs::exists(folder_ / "run/checkpoint-10"); });
  ASSERT_EQ(killed.status, 128 + SIGKILL) << killed.err;
  for (const char* name : {"run/trainer_state.json", "run/all_results.json", "run/train_results.json"})
    EXPECT_FALSE(fs::exists(folder_ / name)) << name;
  folder_.Write("run/.checkpoint-7.partial/model.safetensors", "half");
  Succeeds(Pretrain("run", {"--seed", "43", "--resume_from_checkpoint", "auto"}));
  EXPECT_FALSE(fs::exists(folder_ / "run/.checkpoint-7.partial"));
  EXPECT_EQ(Results("run/trainer_state.json")["global_step"], 60);
}

}  // namespace
}  // namespace lshformer::cli
