#include "train/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/digest.h"
#include "base/signals.h"
#include "dist/processes.h"
#include "ops/threads.h"
#include "train/gradient_tree.h"
#include "train/slices.h"
#include "train/tiny_run.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::InProcesses;
using ::lshformer::testing::TempFolder;
using ::lshformer::testing::TinyConfig;
using ::lshformer::testing::TinyData;
using ::lshformer::testing::TinyModel;
using ::lshformer::testing::TinyOptions;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(Shards, EverySequenceIsInOnePieceInItsOrder) {
  for (const int sequences : {1, 5, 16, 33})
    for (const int shards : {1, 3, 16})
      for (const int at_most : {1, 2, 8}) {
        TrainingOptions options;
        options.gradient_shards = shards;
        options.total_batch_size = 33;
        options.per_device_train_batch_size = at_most;
        std::vector<int64_t> examples(static_cast<size_t>(sequences)), joined;
        for (size_t i = 0; i < examples.size(); ++i) examples[i] = static_cast<int64_t>(7 * i);
        int part = 0;
        for (const Piece& piece : PiecesOf({examples}, options)) {
          EXPECT_LE(piece.examples.size(), static_cast<size_t>(at_most));
          EXPECT_GE(piece.part, part);
          EXPECT_LT(piece.part, shards);
          part = piece.part;
          joined.insert(joined.end(), piece.examples.begin(), piece.examples.end());
        }
        EXPECT_EQ(joined, examples) << sequences << " in " << shards << ", " << at_most << " at once";
      }
}

TEST(Shards, ProcessesShareThePartsWithoutGap) {
  for (const int parts : {1, 3, 16, 17})
    for (int processes = 1; processes <= 20; ++processes) {
      int next = 0;
      for (int rank = 0; rank < processes; ++rank) {
        const auto [begin, end] = PartsOf(rank, processes, parts);
        EXPECT_EQ(begin, next);
        next = end;
      }
      EXPECT_EQ(next, parts);
    }
}

TEST(Shards, WhatIsNotSaidFollows) {
  TrainingOptions options;
  options.per_device_train_batch_size = 4;
  options.gradient_accumulation_steps = 2;
  EXPECT_EQ(SharedBy(1, options).gradient_shards, 1);
  EXPECT_EQ(SharedBy(1, options).total_batch_size, 0);
  const TrainingOptions three = SharedBy(3, options);
  EXPECT_EQ(three.total_batch_size, 24);
  EXPECT_EQ(three.gradient_accumulation_steps, 1);
  EXPECT_EQ(three.gradient_shards, kShards);
  options.total_batch_size = 10;
  EXPECT_THAT(ErrorOf([&] { ValidateTrainingOptions(options); }), HasSubstr("not beside gradient_accumulation_steps"));
}

// The sum, over so many processes, of numbers of very different size.
std::string TreeOf(int parts, int processes) {
  GradientTree all;
  for (int rank = 0; rank < processes; ++rank) {
    const auto [begin, end] = PartsOf(rank, processes, parts);
    GradientTree own;
    for (int part = begin; part < end; ++part)
      own.Add({part,
               1,
               {torch::full({1}, std::pow(10.0f, static_cast<float>(part % 8)) * (part % 3 == 0 ? 1.0f : -0.3f))}});
    std::vector<GradientNode> nodes = own.TakeNodes();
    std::vector<std::pair<int, int>> expected = NodesOf(begin, end), found;
    for (GradientNode& node : nodes) {
      found.emplace_back(node.first, node.count);
      all.Add(std::move(node));
    }
    EXPECT_EQ(found, expected);
  }
  const float total = all.TakeTotal().at(0).item<float>();
  return fmt::format("{:a}", total);
}

// Their sum in float32 hangs on the order.
TEST(GradientTree, TheOrderDoesNotDependOnTheProcesses) {
  for (const int parts : {1, 2, 5, 7, 16, 23}) {
    const std::string alone = TreeOf(parts, 1);
    for (int processes = 2; processes <= 9; ++processes)
      EXPECT_EQ(TreeOf(parts, processes), alone) << parts << " parts in " << processes << " processes";
  }
}

TEST(GradientTree, WhatIsNotThereAddsNothing) {
  GradientTree tree;
  const torch::Tensor value = torch::full({2}, -0.0f);
  tree.Add({0, 1, {torch::Tensor(), torch::Tensor()}});
  tree.Add({1, 1, {value, torch::Tensor()}});
  tree.Add({2, 1, {torch::Tensor(), torch::Tensor()}});
  const std::vector<torch::Tensor> total = tree.TakeTotal();
  EXPECT_TRUE(std::signbit(total[0][0].item<float>())) << "no zero is added to it";
  EXPECT_FALSE(total[1].defined());
}

std::string BitsOf(const Model& model) {
  std::string all;
  for (const auto& [name, tensor] : model.NamedParameters())
    all.append(static_cast<const char*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes()));
  return DigestOfText(all);
}

TrainingOptions SharedOptions() {
  TrainingOptions options = TinyOptions();
  options.total_batch_size = 13;
  options.gradient_shards = 16;
  options.per_device_train_batch_size = 1;
  options.max_steps = 6;
  options.ema_decay = 0.9;
  return options;
}

// What training gives, on each of so many processes.
std::vector<std::string> Trained(int processes, const TrainingOptions& options, const AttentionSpec& attention = {},
                                 const TrainerPlace& place = {}, const std::function<void()>& first = {},
                                 int64_t hidden_size = 16) {
  return InProcesses(processes, [&](int) -> std::string {
    SetAllThreads(1);
    const auto all = JoinProcesses({.join = true});
    ModelConfig config = TinyConfig(0.1, attention);
    config.hidden_size = hidden_size;
    config.intermediate_size = 4 * hidden_size;
    const ModelPtr model = CreateModel(config, Task::kMaskedLm, 7);
    TrainerPlace own = place;
    own.processes = all.get();
    if (first && (all == nullptr || all->first())) first();
    const TrainResult result = Train(*model, TinyData(40), options, own, {});
    return fmt::format("{} {} {}", BitsOf(*model), result.train_loss, result.trainer_state["log_history"].dump());
  });
}

class SharedTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasDistribution()) GTEST_SKIP() << "this build is without distribution";
  }
  static void GoesOn(bool shard_optimizer) {
    const TempFolder dir;
    const auto run = [&](int processes, int64_t steps, const std::string& from) {
      TrainingOptions options = SharedOptions();
      options.shard_optimizer = shard_optimizer;
      options.lr_scheduler_type = ScheduleType::kConstant;
      options.max_steps = steps;
      options.save_steps = 3;
      options.logging_steps = 0;
      TrainerPlace place;
      place.output_dir = dir.path();
      place.resume_from = from;
      std::vector<std::string> said = Trained(processes, options, {}, place, {}, /*hidden_size=*/96);
      for (std::string& text : said) text.resize(std::min(text.find(' '), text.size()));
      return said;
    };
    const std::string whole = run(1, 6, "").at(0);
    for (const char* step : {"3", "6"}) std::filesystem::remove_all(dir.path() + "/checkpoint-" + step);
    run(3, 3, "");
    EXPECT_THAT(run(2, 6, dir.path() + "/checkpoint-3"), Each(whole));
  }
};

TEST_F(SharedTraining, TheWeightsDoNotDependOnTheNumberOfProcesses) {
  const std::string alone = Trained(1, SharedOptions()).at(0);
  ASSERT_THAT(alone, HasSubstr("loss"));
  for (const int processes : {2, 3, 4}) EXPECT_THAT(Trained(processes, SharedOptions()), Each(alone)) << processes;
}

TEST_F(SharedTraining, NorWithHashedAttentionAndLamb) {
  ReformerAttention reformer;
  reformer.chunk = 4;
  TrainingOptions options = SharedOptions();
  options.optim = OptimizerType::kLamb;
  options.gradient_shards = 5;  // no power of two, and fewer than some processes need
  const AttentionSpec spec{reformer};
  const std::string alone = Trained(1, options, spec).at(0);
  ASSERT_THAT(alone, HasSubstr("loss"));
  for (const int processes : {2, 3, 6}) EXPECT_THAT(Trained(processes, options, spec), Each(alone)) << processes;
}

// Blocks are larger than the whole model of other tests: one of several of them.
TEST_F(SharedTraining, NorOnWhoKeepsTheOptimizersState) {
  TrainingOptions options = SharedOptions();
  options.max_steps = 3;
  for (const OptimizerType optim : {OptimizerType::kAdamW, OptimizerType::kAdadelta}) {
    options.optim = optim;
    options.shard_optimizer = false;
    const std::string alone = Trained(1, options, {}, {}, {}, /*hidden_size=*/96).at(0);
    ASSERT_THAT(alone, HasSubstr("loss"));
    options.shard_optimizer = true;
    for (const int processes : {2, 3})
      EXPECT_THAT(Trained(processes, options, {}, {}, {}, /*hidden_size=*/96), Each(alone)) << processes;
  }
  options.optim = OptimizerType::kMuon;
  EXPECT_THAT(ErrorOf([&] { ValidateTrainingOptions(options); }), HasSubstr("shard_optimizer: is not for optim muon"));
}

TEST_F(SharedTraining, AnotherNumberOfProcessesGoesOn) { GoesOn(/*shard_optimizer=*/false); }
TEST_F(SharedTraining, AlsoWithTheOptimizersStateInSlices) { GoesOn(/*shard_optimizer=*/true); }

TEST(Slices, AreBoundsOfBlocksAndOfOneOrder) {
  NamedTensors parameters;
  for (const int64_t elements : {10, 100000, 1, 70000, 40000}) parameters.emplace_back("", torch::zeros({elements}));
  const Slices all(parameters, AllOf(parameters), 3), some(parameters, {1, 3}, 3);
  EXPECT_EQ(all.elements(), 210011);
  EXPECT_EQ(some.elements(), 170000);
  std::vector<std::vector<int64_t>> seen(parameters.size());
  for (int rank = 0; rank < 3; ++rank) {
    all.ForEachPiece(rank, [&](size_t parameter, int64_t begin, int64_t end, int64_t) {
      EXPECT_EQ(begin % kOptimizerBlock, 0);
      seen[parameter].insert(seen[parameter].end(), {begin, end});
    });
    // The same elements whether the others are laid out or not.
    some.ForEachPiece(rank, [&](size_t parameter, int64_t begin, int64_t end, int64_t) {
      bool found = false;
      all.ForEachPiece(rank, [&](size_t other, int64_t other_begin, int64_t other_end, int64_t) {
        found = found || (other == parameter && other_begin == begin && other_end == end);
      });
      EXPECT_TRUE(found) << parameter << " from " << begin;
    });
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(seen[i].front(), 0);
    EXPECT_EQ(seen[i].back(), parameters[i].second.numel());
  }
}

TEST_F(SharedTraining, ASignalToOneStopsAllBehindTheSameUpdate) {
  const TempFolder dir;
  const std::vector<std::string> said = InProcesses(3, [&](int rank) -> std::string {
    SetAllThreads(1);
    InstallSignalHandlers();
    const auto all = JoinProcesses({.join = true});
    const ModelPtr model = TinyModel();
    TrainerPlace place;
    place.output_dir = dir.path();
    place.processes = all.get();
    TrainingOptions options = SharedOptions();
    options.max_steps = 100000;
    int64_t batches = 0;
    TrainingData data = TinyData(40);
    data.batch = [&, batch = data.batch](int64_t epoch, std::span<const int64_t> examples) {
      if (rank == 2 && ++batches == 30) raise(SIGTERM);
      return batch(epoch, examples);
    };
    Train(*model, data, options, place, {});
    return "was not stopped";
  });
  EXPECT_THAT(said, Each(::testing::StartsWith("stopped by SIGTERM after step ")));
  EXPECT_EQ(said[1], said[2]);
  EXPECT_THAT(said[0], ::testing::StartsWith(said[1]));
  EXPECT_THAT(said[0], HasSubstr("holds the state"));
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/checkpoint-" + said[1].substr(said[1].rfind(' ') + 1)));
}

}  // namespace
}  // namespace lshformer
