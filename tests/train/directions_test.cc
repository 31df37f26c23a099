// Directions of clustered attention that follow the model while it trains.
#include "train/directions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/progress.h"
#include "data/sampler.h"
#include "models/stored_directions.h"
#include "models/word_batch.h"
#include "ops/threads.h"
#include "train/tiny_run.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::Contains;
using testing::Copies;
using testing::Different;
using ::testing::Each;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TempFolder;
using testing::TinyBatch;
using testing::TinyData;
using testing::TinyModel;
using testing::TinyOptions;
using Names = std::vector<std::string>;

constexpr const char* kPrefix = "lshformer.attention.";

// Sequences from 9 tokens on are clustered: most of TinyData's, which have 5 to 24.
AttentionSpec Clustered() {
  return ParseAttentionSpec(ParseJson(R"({"type": "clustered", "cluster": 4, "open": 1, "groups": 2})", "test"),
                            "test");
}
ModelPtr Storing(double dropout = 0.1, uint64_t seed = 7) {
  return StoringDirections(*TinyModel(dropout, Clustered(), seed), seed);
}

Names Starting(const Names& names, bool with_prefix) {
  Names some;
  for (const std::string& name : names)
    if (name.starts_with(kPrefix) == with_prefix) some.push_back(name);
  return some;
}

// The coming batches of a run, as a trainer has them.
std::function<PackedBatch(int64_t)> BatchesFrom(int64_t step, int64_t examples, const TrainingOptions& options) {
  return [=](int64_t number) {
    TrainSampler sampler(examples, options.per_device_train_batch_size, 1, options.seed);
    return TinyBatch(sampler.Epoch(step + number), sampler.Batches(step + number).front());
  };
}

class DirectionsTest : public ::testing::Test {
 protected:
  void SetUp() override { SetProgressStyle(ProgressStyle::kOff); }
  TempFolder folder_;
};

TEST_F(DirectionsTest, AreThoseThatTheModelGivesAtTheStepsAsked) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 8;
  options.save_steps = 1;
  options.refresh_directions_steps = 3;
  const ModelPtr model = Storing();
  Train(*model, TinyData(18), options, {.output_dir = folder_ / "run"}, {});
  const auto saved = [&](int64_t step) {
    return LoadModel(folder_ / ("run/checkpoint-" + std::to_string(step)), Task::kMaskedLm, 1, /*require_head=*/true);
  };
  for (int64_t step = 1; step < 8; ++step) {
    const ModelPtr before = saved(step);
    EXPECT_EQ(As<ClusteredAttention>(before->config().attention[0]).directions, Directions::kStored);
    const NamedTensors was = Copies(*before);
    if (step % 3 == 0) RefreshDirections(*before, BatchesFrom(step, 18, options));
    // Only directions, and those of keys and queries of both layers.
    const Names changed = Different(was, Copies(*before));
    EXPECT_THAT(changed, SizeIs(step % 3 == 0 ? 4 : 0)) << step;
    EXPECT_THAT(changed, Each(StartsWith(kPrefix)));
    const Names after = Starting(Different(Copies(*before), Copies(*saved(step + 1))), true);
    EXPECT_THAT(after, IsEmpty()) << "after step " << step;
  }
}

// What a run saves is what it computed with: layers that drew directions before do not go on with those.
TEST_F(DirectionsTest, TheModelInMemoryIsTheModelSaved) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 4;
  options.refresh_directions_steps = 3;
  const ModelPtr model = Storing();
  const PackedBatch batch = TinyBatch(0, std::vector<int64_t>{40, 41, 42, 43, 44, 45});
  const auto answers = [&](Model& asked) {
    const torch::NoGradGuard no_grad;
    return asked.Forward(batch, {}).logits;
  };
  const torch::Tensor first = answers(*model);  // and the layers keep what they drew
  Train(*model, TinyData(18), options, {}, {});
  SaveModel(*model, folder_ / "saved");
  const ModelPtr loaded = LoadModel(folder_ / "saved", Task::kMaskedLm, 1, /*require_head=*/true);
  EXPECT_TRUE(torch::equal(answers(*model), answers(*loaded)));
  // The directions matter: under others the answers are others.
  LayerDirections others = DirectionsOf(*loaded);
  for (StoredDirections& visit : others) visit = {visit.key.flip({1}), visit.query.flip({1})};
  SetDirections(*loaded, others);
  EXPECT_FALSE(torch::equal(answers(*model), answers(*loaded)));
}

TEST_F(DirectionsTest, WithoutTheOptionTheyStayAsTheyAre) {
  TrainingOptions options = TinyOptions();
  options.max_steps = 4;
  const ModelPtr kept = Storing(), refreshed = Storing();
  const NamedTensors before = Copies(*kept);
  Train(*kept, TinyData(18), options, {}, {});
  const Names changed = Different(before, Copies(*kept));
  EXPECT_THAT(Starting(changed, true), IsEmpty());
  EXPECT_THAT(Starting(changed, false), Not(IsEmpty()));
  options.refresh_directions_steps = 1'000'000;  // once, before the first update
  Train(*refreshed, TinyData(18), options, {}, {});
  EXPECT_THAT(Starting(Different(before, Copies(*refreshed)), true), SizeIs(4));
  EXPECT_THAT(Different(Copies(*kept), Copies(*refreshed)), Contains("bert.encoder.layer.0.attention.self.key.weight"));
}

TEST_F(DirectionsTest, DoNotDependOnThreads) {
  std::vector<NamedTensors> results;
  for (const int threads : {1, 2}) {
    SetAllThreads(threads);
    const ModelPtr model = Storing();
    RefreshDirections(*model, BatchesFrom(0, 18, TinyOptions()));
    results.push_back(Copies(*model));
  }
  EXPECT_THAT(Different(results[0], results[1]), IsEmpty());
}

// Of a batch of short and of long sequences the long ones count; of short ones alone nothing changes.
TEST_F(DirectionsTest, ShortSequencesTakeNoPart) {
  const auto sequences = [](const std::vector<int>& lengths) {
    return [lengths](int64_t number) {
      PackedBatch batch;
      for (const int length : lengths) {
        std::vector<int32_t> ids;
        PhiloxStream stream(StreamKey(5, static_cast<uint64_t>(number), 0, 0, Purpose::kSynthetic),
                            static_cast<uint64_t>(length));
        for (int i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(5 + stream.Below(45)));
        AppendSequence(batch, ids, {}, static_cast<uint64_t>(length));
      }
      return batch;
    };
  };
  const ModelPtr mixed = Storing(), longest = Storing(), shortest = Storing();
  const NamedTensors before = Copies(*mixed);
  RefreshDirections(*mixed, sequences({3, 20, 8, 9, 1}));
  RefreshDirections(*longest, sequences({20, 9}));
  RefreshDirections(*shortest, sequences({3, 8, 1}));
  EXPECT_THAT(Different(before, Copies(*mixed)), SizeIs(4));
  EXPECT_THAT(Different(Copies(*mixed), Copies(*longest)), IsEmpty());
  EXPECT_THAT(Different(before, Copies(*shortest)), IsEmpty());
}

TEST_F(DirectionsTest, HeadsThatDifferKeepTheirSettings) {
  const Json heads = ParseJson(R"([{"type": "clustered", "cluster": 4, "open": 1}, {"type": "dense"}])", "test");
  ModelConfig config = testing::TinyConfig(0.1);
  config.attention = {ParseAttentionSpec(heads, "test")};
  const ModelPtr model = StoringDirections(*CreateModel(config, Task::kMaskedLm, 7), 7);
  const AttentionSpec& spec = model->config().attention.front();
  EXPECT_EQ(As<ClusteredAttention>(OfHead(spec, 0)).cluster, std::vector<int>{4});
  EXPECT_TRUE(Is<DenseAttention>(OfHead(spec, 1)));
  const LayerDirections before = DirectionsOf(*CopyOf(*model));
  TrainingOptions options = TinyOptions();
  options.max_steps = 1;
  options.refresh_directions_steps = 1;
  Train(*model, TinyData(18), options, {}, {});
  const LayerDirections after = DirectionsOf(*model);
  for (const size_t visit : {0, 1}) {
    EXPECT_FALSE(torch::equal(before[visit].key[0], after[visit].key[0]));
    EXPECT_TRUE(torch::equal(before[visit].key[1], after[visit].key[1]));
  }
}

// Layers that share their weights have directions of their own: each sees other queries and keys.
TEST_F(DirectionsTest, AreThoseOfEachVisit) {
  ModelConfig config = DefaultModelConfig("albert", "test");
  ApplyOverrides(config,
                 "vocab_size=50,hidden_size=16,embedding_size=8,num_hidden_layers=2,inner_group_num=2,"
                 "num_attention_heads=2,intermediate_size=24,max_position_embeddings=32,initializer_range=0.4",
                 "test");
  config.attention = {Clustered()};
  const ModelPtr model = StoringDirections(*CreateModel(config, Task::kMaskedLm, 7), 7);
  RefreshDirections(*model, [](int64_t number) {
    return TinyBatch(0, std::vector<int64_t>{2 * number, 2 * number + 1});
  });
  const LayerDirections found = DirectionsOf(*model);
  ASSERT_EQ(found.size(), 4u);
  for (size_t a = 0; a < 4; ++a)
    for (size_t b = a + 1; b < 4; ++b) EXPECT_FALSE(torch::equal(found[a].key, found[b].key)) << a << ", " << b;
}

TEST_F(DirectionsTest, OfModelsThatReadWords) {
  for (const char* reversible : {"false", "true"}) {
    ModelConfig config = DefaultModelConfig("qanet", "test");
    ApplyOverrides(config,
                   std::string("vocab_size=40,embedding_size=16,hidden_size=16,character_vocab_size=20,"
                               "character_embedding_size=8,character_filters=16,initializer_range=0.5,"
                               "num_hidden_layers=1,num_attention_heads=2,reversible=") +
                       reversible,
                   "test");
    config.attention = {Clustered()};
    const ModelPtr model = StoringDirections(*CreateModel(config, Task::kQuestionAnswering, 7), 7);
    const NamedTensors before = Copies(*model);
    const TrainingData data{12, [](int64_t, std::span<const int64_t> numbers) {
                              std::vector<testing::WordExample> examples;
                              for (const int64_t number : numbers)
                                examples.push_back(testing::RandomExample(static_cast<uint64_t>(number), 20, 4));
                              return testing::BatchOf(examples);
                            }};
    TrainingOptions options = TinyOptions();
    options.max_steps = 2;
    options.refresh_directions_steps = 1;
    Train(*model, data, options, {}, {});
    // The block of the embeddings, and one in each of three passes.
    EXPECT_THAT(Starting(Different(before, Copies(*model)), true), SizeIs(8)) << reversible;
  }
}

TEST_F(DirectionsTest, StoringThemLeavesAllElseAsItIs) {
  const ModelPtr drawn = TinyModel(0, Clustered()), exact = TinyModel(0);
  const ModelPtr storing = StoringDirections(*drawn, 7);
  EXPECT_EQ(storing->NamedParameters().size(), drawn->NamedParameters().size() + 4);
  for (const auto& [name, parameter] : drawn->NamedParameters()) {
    const auto all = storing->NamedParameters();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&, name = name, parameter = parameter](const auto& other) {
      return other.first == name && other.second.is_same(parameter);
    })) << name;
  }
  // Those that a model has stay.
  const ModelPtr again = StoringDirections(*storing, /*seed=*/8);
  EXPECT_THAT(Different(Copies(*storing), Copies(*again)), IsEmpty());
  TrainingOptions options = TinyOptions();
  options.refresh_directions_steps = 2;
  for (const ModelPtr& model : {drawn, exact})
    EXPECT_THAT(ErrorOf([&] { Train(*model, TinyData(18), options, {}, {}); }),
                HasSubstr("refresh_directions_steps: the model stores no directions"));
}

}  // namespace
}  // namespace lshformer
