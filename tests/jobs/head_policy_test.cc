// What the choice of heads' settings is made on.
#include "jobs/head_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.h"
#include "base/progress.h"
#include "models/stored_directions.h"

namespace lshformer {
namespace {

ModelConfig Small() {
  ModelConfig config;
  config.architectures = {"BertModel"};
  config.vocab_size = 60;
  config.hidden_size = 16;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 24;
  config.max_position_embeddings = 128;
  config.initializer_range = 0.5;
  return config;
}

CalibrationTexts Texts() {
  CalibrationTexts texts;
  PhiloxStream stream(StreamKey(3, 0, 0, 0, Purpose::kSynthetic));
  for (const int64_t number : {0, 1, 2}) {
    std::vector<int32_t> ids(static_cast<size_t>(90 + 10 * number));
    for (int32_t& id : ids) id = static_cast<int32_t>(5 + stream.Below(55));
    texts.set.Add(ids, std::vector<int32_t>(ids.size(), 0));
    texts.fitted.push_back(number);
  }
  return texts;
}

// A budget of time has bundles to choose from, whose gain is in time alone; every setting is one that a config may
// have.
TEST(HeadPolicy, MenusOfPairsAndOfTime) {
  const AttentionSpec base = AttentionKinds().back();
  const std::vector<HeadSetting> pairs = HeadMenu(base, HeadCost::kPairs), time = HeadMenu(base, HeadCost::kTime);
  const auto bundled = [](const HeadSetting& one) {
    return Is<ClusteredAttention>(one.spec) && As<ClusteredAttention>(one.spec).bundle > 1;
  };
  EXPECT_EQ(std::count_if(pairs.begin(), pairs.end(), bundled), 0);
  EXPECT_EQ(std::count_if(time.begin(), time.end(), bundled), std::ssize(time) - std::ssize(pairs));
  EXPECT_GT(time.size(), pairs.size());
  EXPECT_EQ(time.back().name, "exact");
  for (const HeadSetting& one : time) EXPECT_EQ(ParseAttentionSpec(ToJson(one.spec), one.name), one.spec);
  EXPECT_EQ(ShortName(BundledSetting(base)), "64 × 4, bundles of 64, window 0");
}

// By the formula: what the tokens' states lose when one layer alone has two clusters of 16 opened.
TEST(HeadPolicy, WeightsOfSingleWordsAreWhatTheirStatesLose) {
  SetProgressStyle(ProgressStyle::kOff);
  const ModelPtr exact = CreateModel(Small(), Task::kEncoder, 7);
  const CalibrationTexts texts = Texts();
  const LayerDirections directions = CalibrateDirections(*exact, texts);
  AttentionSpec base = AttentionKinds().back();
  As<ClusteredAttention>(base).directions = Directions::kStored;
  const std::vector<HeadSetting> menu = HeadMenu(base, HeadCost::kPairs);
  const auto measure = [&](AnswersFrom from) {
    return MeasureHeads(*exact, texts, directions, menu, from, /*timed=*/false);
  };
  const HeadTable words = measure(AnswersFrom::kTokenStates), means = measure(AnswersFrom::kMeanState);
  AttentionSpec middle = base;
  As<ClusteredAttention>(middle).cluster = {16};
  As<ClusteredAttention>(middle).open = {2};
  const auto setting =
      std::find_if(menu.begin(), menu.end(), [&](const HeadSetting& one) { return one.spec == middle; }) - menu.begin();
  ASSERT_LT(setting, static_cast<int64_t>(menu.size()));
  const torch::NoGradGuard no_grad;
  for (int64_t layer = 0; layer < 2; ++layer) {
    std::vector<AttentionSpec> specs(2);
    specs[static_cast<size_t>(layer)] = middle;
    const ModelPtr one = WithAttention(*exact, specs, DirectionTensors(directions));
    double lost = 0;
    for (const int64_t number : texts.fitted) {
      const PackedBatch batch = TextBatch(texts, number);
      const torch::Tensor a = exact->Forward(batch, {}).last_hidden_state.to(torch::kFloat64);
      const torch::Tensor b = one->Forward(batch, {}).last_hidden_state.to(torch::kFloat64);
      lost += (1 - torch::cosine_similarity(a, b)).mean().item<double>() / 3;
    }
    const double error = words.error[layer].select(1, setting).sum().item<double>();
    EXPECT_NEAR(words.weight[layer].item<double>(), lost / error, 1e-6 * lost / error) << layer;
    EXPECT_GT(lost, 0);
  }
  // An error that tokens share counts once here, four times there; the exact setting has none of either.
  EXPECT_TRUE((words.error <= means.error).all().item<bool>());
  EXPECT_TRUE((words.error.select(2, setting) < means.error.select(2, setting)).all().item<bool>());
  EXPECT_EQ(words.error.select(2, static_cast<int64_t>(menu.size()) - 1).abs().max().item<double>(), 0);
  EXPECT_TRUE(torch::equal(words.pairs, means.pairs));
}

}  // namespace
}  // namespace lshformer
