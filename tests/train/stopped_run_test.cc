// A run that is stopped or killed at any moment and started again ends where an undisturbed one ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <ostream>
#include <set>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/signals.h"
#include "models/stored_directions.h"
#include "ops/threads.h"
#include "train/checkpoint.h"
#include "train/tiny_run.h"
#include "train/trainer.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::TempFolder;
using ::lshformer::testing::TinyModel;

struct StoppedCase {
  const char* name;
  int64_t eval_steps, save_steps;
  int save_total_limit;
  bool best;
  double ema_decay = 0;
  int accumulation = 1;
  int64_t refresh = 0;  // of directions
};

void PrintTo(const StoppedCase& c, std::ostream* stream) { *stream << c.name; }

constexpr int64_t kExamples = 18, kSteps = 6;

class StoppedRunTest : public ::testing::TestWithParam<StoppedCase> {
 protected:
  void SetUp() override {
    SetProgressStyle(ProgressStyle::kOff);
    SetAllThreads(1);  // a forked child has no other threads
  }
  void TearDown() override { SetAllThreads(threads_); }

  TrainingOptions Options() const {
    TrainingOptions options = testing::TinyOptions();
    options.max_steps = kSteps;
    options.logging_steps = 3;
    options.eval_steps = GetParam().eval_steps;
    options.save_steps = GetParam().save_steps;
    options.save_total_limit = GetParam().save_total_limit;
    options.load_best_model_at_end = GetParam().best;
    options.ema_decay = GetParam().ema_decay;
    options.gradient_accumulation_steps = GetParam().accumulation;
    options.refresh_directions_steps = GetParam().refresh;
    return options;
  }

  ModelPtr NewModel(uint64_t seed) const {
    if (GetParam().refresh == 0) return TinyModel(0.1, {}, seed);
    AttentionSpec clustered;
    clustered.kind = ClusteredAttention{.cluster = {4}, .open = {1}};
    return StoringDirections(*TinyModel(0.1, clustered, seed), seed);
  }

  // Calls `event` at every place where the loop can be looked into: before each batch, in evaluations and checkpoints,
  // behind log entries and updates, before, in and behind the work at the end, which writes the result into
  // run/final.
  void Run(const std::string& run, const std::string& resume_from, const std::function<void()>& event) const {
    int64_t step = 0;
    const ModelPtr model = NewModel(resume_from.empty() ? 7 : 99);
    const TrainingData data{kExamples, [&](int64_t epoch, std::span<const int64_t> examples) {
                              event();
                              return testing::TinyBatch(epoch, examples);
                            }};
    TrainerHooks hooks;
    hooks.evaluate = [&] {
      event();
      ThrowIfStopped("evaluation");
      double sum = 0;  // so that the log tells whose weights were evaluated
      for (const auto& [name, parameter] : model->NamedParameters()) sum += parameter.abs().sum().item<double>();
      event();
      ThrowIfStopped("evaluation");
      return Json{{"eval_loss", std::abs(static_cast<double>(step) - 4.5)}, {"eval_sum", sum}};  // the best: 4
    };
    hooks.save_extra = [&](const std::string& folder) {
      WriteFileAtomically(folder + "/vocab.txt", "[PAD]\n");
      event();
    };
    hooks.log = [&](const Json&) { event(); };
    hooks.progress = [&](const TrainingProgress& progress) {
      step = progress.step;
      event();
    };
    hooks.finish = [&](TrainResult& result) {
      event();
      ThrowIfStopped("the last evaluation");
      MakeFolder(run + "/final");
      SaveModel(*model, run + "/final");
      event();
      ThrowIfStopped("predictions");
      Json state = result.trainer_state;
      state["lshformer"].erase("train_runtime");
      state["best_step"] = result.best_step;
      WriteFileAtomically(run + "/final/state.json", state.dump(1));
    };
    Train(*model, data, Options(), {.output_dir = run, .resume_from = resume_from}, hooks);
  }

  // In a process of its own, which sends itself `signal` at the event of that number. Returns its status, 128 + signal
  // where it was killed.
  int RunStopped(const std::string& run, int stop_at, int signal) const {
    const pid_t child = fork();
    if (child == 0) {
      InstallSignalHandlers();
      int events = 0;
      try {
        Run(run, "", [&] {
          if (++events == stop_at) raise(signal);
        });
      } catch (const Interrupted& interrupted) {
        _exit(128 + interrupted.signal());
      } catch (...) {
        _exit(99);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  static std::set<std::string> CheckpointsOf(const std::string& run) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(run))
      if (const std::string name = entry.path().filename().string(); IsCheckpointName(name)) names.insert(name);
    return names;
  }

  TempFolder folder_;
  const int threads_ = Threads();
};

TEST_P(StoppedRunTest, EndsAtTheSameBytes) {
  const std::string whole = folder_ / "whole", run = folder_ / "run";
  int events = 0;
  Run(whole, "", [&] { ++events; });
  const std::string model = ReadFile(whole + "/final/model.safetensors"), state = ReadFile(whole + "/final/state.json");
  EXPECT_EQ(Json::parse(state)["best_step"], GetParam().best ? 4 : 0);
  ASSERT_GT(events, 2 * kSteps);
  for (int event = 1; event <= events; ++event) {
    for (const int signal : {event % 2 == 0 ? SIGINT : SIGTERM, SIGKILL}) {
      if (signal == SIGKILL && event % 3 != 0) continue;  // none has time to do anything
      SCOPED_TRACE(::testing::Message() << "signal " << signal << " at event " << event << " of " << events);
      fs::remove_all(run);
      ASSERT_EQ(RunStopped(run, event, signal), 128 + signal);
      const std::string newest = NewestCheckpoint(run);
      EXPECT_TRUE(signal == SIGKILL || !newest.empty()) << "updates were lost";
      Run(run, newest, [] {});
      ASSERT_EQ(ReadFile(run + "/final/state.json"), state);
      ASSERT_TRUE(ReadFile(run + "/final/model.safetensors") == model);
      if (GetParam().save_total_limit > 0) {
        ASSERT_EQ(CheckpointsOf(run), CheckpointsOf(whole));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoppedRunTest,
                         ::testing::Values(StoppedCase{"best", 2, 2, 1, true},
                                           StoppedCase{"best_between_evaluations", 1, 4, 1, true, 0.7, 2},
                                           StoppedCase{"without_checkpoints", 4, 0, 0, false, 0.7},
                                           StoppedCase{"directions", 2, 2, 1, true, 0, 1, 3}),
                         [](const auto& info) { return info.param.name; });

// Killed between the write of a checkpoint and the removal of those that it pushes out: whoever goes on removes them.
TEST(RemoveOldCheckpointsTest, KeepsTheBestTheNewestAndWhatLiesBehind) {
  const TempFolder folder;
  for (const char* name : {"checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8", "checkpoint-10"})
    fs::create_directory(folder / name);
  TrainerState state;
  state.global_step = 8, state.best_global_step = 4;
  RemoveOldCheckpoints(folder.path(), state, 0);
  EXPECT_TRUE(fs::exists(folder / "checkpoint-2"));
  RemoveOldCheckpoints(folder.path(), state, 1);
  EXPECT_FALSE(fs::exists(folder / "checkpoint-2"));
  EXPECT_FALSE(fs::exists(folder / "checkpoint-6"));
  for (const char* name : {"checkpoint-4", "checkpoint-8", "checkpoint-10"}) EXPECT_TRUE(fs::exists(folder / name));
  state.global_step = 9;  // no such checkpoint
  state.best_global_step = 0;
  RemoveOldCheckpoints(folder.path(), state, 1);
  EXPECT_TRUE(fs::exists(folder / "checkpoint-4"));
}

}  // namespace
}  // namespace lshformer
