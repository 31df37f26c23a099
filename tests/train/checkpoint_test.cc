#include "train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "train/tiny_run.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::Copies;
using ::lshformer::testing::Different;
using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::lshformer::testing::TinyData;
using ::lshformer::testing::TinyModel;
using ::lshformer::testing::TinyOptions;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

class CheckpointTest : public ::testing::Test {
 protected:
  // Twelve steps of training, a checkpoint every other one.
  void SetUp() override {
    SetProgressStyle(ProgressStyle::kOff);
    TrainingOptions options = TinyOptions();
    options.save_steps = 2;
    options.save_total_limit = 3;
    const TrainerHooks hooks{{},
                             [](const std::string& folder) { WriteFileAtomically(folder + "/vocab.txt", "[PAD]\n"); }};
    Train(*TinyModel(), TinyData(18), options, {.output_dir = run_}, hooks);
  }

  std::vector<std::string> Names(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    return names;
  }

  TempFolder folder_;
  const std::string run_ = folder_ / "run";
};

// Checkpoints of later steps belong to a course that was left: they are neither "the newest" nor push out the new one.
TEST_F(CheckpointTest, GoingBackReplacesWhatCameLater) {
  TrainingOptions options = TinyOptions();
  options.save_steps = 1;
  options.save_total_limit = 1;
  options.max_steps = 9;
  options.learning_rate *= 2;
  Train(*TinyModel(), TinyData(18), options, {.output_dir = run_, .resume_from = run_ + "/checkpoint-8"}, {});
  EXPECT_THAT(Names(run_), UnorderedElementsAre("checkpoint-9"));
  EXPECT_EQ(NewestCheckpoint(run_), run_ + "/checkpoint-9");
}

TEST_F(CheckpointTest, KeepsTheNewestInTheLayoutOfTransformers) {
  EXPECT_THAT(Names(run_), UnorderedElementsAre("checkpoint-8", "checkpoint-10", "checkpoint-12"));
  EXPECT_THAT(Names(run_ + "/checkpoint-12"),
              UnorderedElementsAre("config.json", "model.safetensors", "optimizer.safetensors", "optimizer.json",
                                   "trainer_state.json", "vocab.txt"));
  const Json state = ReadJsonFile(run_ + "/checkpoint-12/trainer_state.json");
  EXPECT_EQ(state["global_step"], 12);
  EXPECT_EQ(state["max_steps"], 12);
  EXPECT_EQ(state["train_batch_size"], 4);
  EXPECT_EQ(state["log_history"].size(), 6u);
}

TEST_F(CheckpointTest, NewestIsByNumberNotByName) { EXPECT_EQ(NewestCheckpoint(run_), run_ + "/checkpoint-12"); }

TEST_F(CheckpointTest, NoneInAnEmptyOrMissingFolder) {
  EXPECT_EQ(NewestCheckpoint(folder_ / "missing"), "");
  fs::create_directory(folder_ / "empty");
  EXPECT_EQ(NewestCheckpoint(folder_ / "empty"), "");
}

TEST_F(CheckpointTest, ADamagedOneIsSkippedForTheOneBefore) {
  for (const char* name :
       {"config.json", "model.safetensors", "optimizer.safetensors", "optimizer.json", "trainer_state.json"}) {
    for (const bool missing : {false, true}) {
      const std::string path = run_ + "/checkpoint-12/" + name;
      const std::string contents = ReadFile(path);
      if (missing) {
        fs::remove(path);
      } else {
        fs::resize_file(path, contents.size() / 2);
      }
      EXPECT_THAT(IncompleteReason(run_ + "/checkpoint-12"), HasSubstr(name)) << missing;
      EXPECT_EQ(NewestCheckpoint(run_), run_ + "/checkpoint-10") << name << missing;
      WriteFileAtomically(path, contents);
      EXPECT_EQ(NewestCheckpoint(run_), run_ + "/checkpoint-12");
    }
  }
}

TEST_F(CheckpointTest, OneUnderAWrongNumberIsSkipped) {
  fs::rename(run_ + "/checkpoint-12", run_ + "/checkpoint-99");
  EXPECT_EQ(NewestCheckpoint(run_), run_ + "/checkpoint-10");
}

TEST_F(CheckpointTest, AHalfWrittenOneIsNotSeenAndIsRemoved) {
  fs::rename(run_ + "/checkpoint-12", run_ + "/.checkpoint-12.partial");
  EXPECT_EQ(NewestCheckpoint(run_), run_ + "/checkpoint-10");
  RemovePartialCheckpoints(run_);
  EXPECT_THAT(Names(run_), UnorderedElementsAre("checkpoint-8", "checkpoint-10"));
  RemoveCheckpoints(run_);
  EXPECT_THAT(Names(run_), IsEmpty());
}

TEST_F(CheckpointTest, OneOfAnotherModelIsRefusedByTensor) {
  ModelConfig config = lshformer::testing::TinyConfig(0.1);
  config.intermediate_size = 32;
  const ModelPtr other = CreateModel(config, Task::kMaskedLm, 7);
  const auto optimizer = MakeOptimizer(TinyOptions(), other->NamedParameters(), Roles(*other));
  EXPECT_THAT([&] { LoadCheckpoint(run_ + "/checkpoint-12", *other, *optimizer); },
              ThrowsMessage<Error>(HasSubstr("bert.encoder.layer.0.intermediate.dense")));
}

TEST_F(CheckpointTest, OneOfAnotherProgramIsRefused) {
  Json state = ReadJsonFile(run_ + "/checkpoint-12/trainer_state.json");
  state.erase("lshformer");
  EXPECT_THAT([&] { ParseTrainerState(state, "here"); }, ThrowsMessage<Error>(HasSubstr("another program")));
}

TEST_F(CheckpointTest, AFailedWriteLeavesTheOthersAsTheyWere) {
  const ModelPtr model = TinyModel();
  const TrainingOptions options = TinyOptions();
  const auto optimizer = MakeOptimizer(options, model->NamedParameters(), Roles(*model));
  TrainerState state;
  state.global_step = 12;
  const std::string before = ReadFile(run_ + "/checkpoint-12/model.safetensors");
  const auto fails = [](const std::string&) { Fail("no space left"); };
  EXPECT_THAT(
      [&] {
        SaveCheckpoint(run_, {*model, *optimizer, state, options, fails});
      },
      ThrowsMessage<Error>(HasSubstr("no space left")));
  EXPECT_THAT(Names(run_), UnorderedElementsAre("checkpoint-8", "checkpoint-10", "checkpoint-12"));
  EXPECT_EQ(ReadFile(run_ + "/checkpoint-12/model.safetensors"), before);
}

// Somebody deletes the checkpoint as soon as it is there: an error, however the two meet.
TEST_F(CheckpointTest, OneThatVanishesIsAnError) {
  const ModelPtr model = TinyModel();
  const TrainingOptions options = TinyOptions();
  const auto optimizer = MakeOptimizer(options, model->NamedParameters(), Roles(*model));
  TrainerState state;
  state.global_step = 12;
  const std::string run = folder_ / "vanishing";
  fs::create_directories(run);  // among so many files that looking for it takes long enough to be overtaken
  for (int i = 0; i < 5000; ++i) std::ofstream(run + "/other" + std::to_string(i));
  std::atomic<bool> stop{false};
  std::thread deleter([&] {
    std::error_code ignored;
    while (!stop) fs::remove_all(run + "/checkpoint-12", ignored);
  });
  std::string error;
  for (int attempt = 0; attempt < 2000 && error.find("vanished right after") == std::string::npos; ++attempt)
    error = ErrorOf([&] { SaveCheckpoint(run, {*model, *optimizer, state, options, {}}); });
  stop = true;
  deleter.join();
  EXPECT_THAT(error, HasSubstr("checkpoint-12: vanished right after it was written"));
}

// What is left is a model, and a run that has no step left to make can still be resumed.
TEST_F(CheckpointTest, WithoutTheOptimizersStateNoStepCanFollow) {
  ReleaseOptimizerStates(run_);
  for (const char* name : {"checkpoint-8", "checkpoint-10", "checkpoint-12"})
    EXPECT_THAT(Names(run_ + "/" + name), UnorderedElementsAre("config.json", "model.safetensors", "optimizer.json",
                                                               "trainer_state.json", "vocab.txt"));
  const std::string newest = NewestCheckpoint(run_);
  EXPECT_EQ(newest, run_ + "/checkpoint-12");
  EXPECT_FALSE(HasOptimizerState(newest));
  TrainingOptions options = TinyOptions();
  for (const double ema_decay : {0.0, 0.7}) {
    options.ema_decay = ema_decay;
    const ModelPtr resumed = TinyModel(0.1, {}, /*seed=*/99), saved = LoadModel(newest, Task::kMaskedLm, 0, true);
    const TrainResult result = Train(*resumed, TinyData(18), options, {.resume_from = newest}, {});
    EXPECT_EQ(result.global_step, 12);
    EXPECT_THAT(Different(Copies(*resumed), Copies(*saved)), IsEmpty());
  }
  options.max_steps = 13;
  EXPECT_THAT(ErrorOf([&] { Train(*TinyModel(), TinyData(18), options, {.resume_from = newest}, {}); }),
              HasSubstr("checkpoint-12: the optimizer's state was released"));
  // One whose state is just missing is damaged.
  fs::remove(run_ + "/checkpoint-12/optimizer.json");
  EXPECT_THAT(IncompleteReason(newest), HasSubstr("optimizer.json"));
}

TEST_F(CheckpointTest, OneOfTheSameStepIsReplaced) {
  const ModelPtr model = TinyModel(0.1, {}, /*seed=*/99);
  const TrainingOptions options = TinyOptions();
  const auto optimizer = MakeOptimizer(options, model->NamedParameters(), Roles(*model));
  TrainerState state;
  state.global_step = 12;
  const std::string before = ReadFile(run_ + "/checkpoint-12/model.safetensors");
  EXPECT_EQ(SaveCheckpoint(run_, {*model, *optimizer, state, options, {}}), run_ + "/checkpoint-12");
  EXPECT_NE(ReadFile(run_ + "/checkpoint-12/model.safetensors"), before);
  EXPECT_THAT(Names(run_), UnorderedElementsAre("checkpoint-8", "checkpoint-10", "checkpoint-12"));
}

}  // namespace
}  // namespace lshformer
