// What the choice of heads' settings is made on.
#include "convert/head_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"
#include "jobs/small_model.h"
#include "models/stored_directions.h"

namespace lshformer {
namespace {

SmallModel Small() { return {128, {90, 100, 110}}; }

// A budget of time has bundles to choose from, whose gain is in time alone; every setting is one that a config may
// have.
TEST(HeadPolicy, MenusOfPairsAndOfTime) {
  const AttentionSpec base = ParseAttentionSpec("clustered", "test");
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
  const SmallModel small = Small();
  const auto& [exact, texts, directions] = small;
  const AttentionSpec base = SmallModel::Base();
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

// By the formula, of a mean state: |ΔW|² of a token on average, and 3 times that of the mean Δ.
TEST(HeadPolicy, ErrorsOfMeanStatesByTheFormula) {
  SetProgressStyle(ProgressStyle::kOff);
  const SmallModel small = Small();
  const auto& [exact, texts, directions] = small;
  const AttentionSpec base = SmallModel::Base();
  const std::vector<HeadSetting> menu = HeadMenu(base, HeadCost::kPairs);
  const HeadTable table = MeasureHeads(*exact, texts, directions, menu, AnswersFrom::kMeanState, /*timed=*/false);
  constexpr int64_t kSetting = 3, kHeadDim = 8;
  torch::Tensor errors = torch::zeros({2, 2}, torch::kFloat64);
  double pairs = 0;
  VisitAttention(*exact, texts, texts.fitted, "test", [&](const AttentionSite& site) {
    AttentionCounts counts;
    const torch::Tensor whole = AttendAs(site, AttentionSpec{}, {});
    const torch::Tensor delta = (AttendAs(site, menu[kSetting].spec, directions, &counts) - whole).to(torch::kFloat64);
    const torch::Tensor map = site.output_map.to(torch::kFloat64);  // [H, H], y = x Wᵀ
    for (int64_t head = 0; head < 2; ++head) {
      const torch::Tensor moved = torch::matmul(delta.narrow(1, head * kHeadDim, kHeadDim),
                                                map.narrow(1, head * kHeadDim, kHeadDim).t());  // [T, H]
      errors[site.layer][head] += moved.square().sum(1).mean() + 3 * moved.mean(0).square().sum();
    }
    if (site.layer == 1) pairs += static_cast<double>(counts.pairs_computed) / 2;
    return whole;
  });
  double all = 0;
  for (const int64_t text : texts.fitted) all += 2.0 * 2 * texts.set.length(text) * texts.set.length(text);
  EXPECT_TRUE(torch::allclose(table.error.select(2, kSetting), errors, 1e-6, 0)) << errors << table.error;
  EXPECT_NEAR(table.pairs[1][kSetting].item<double>(), pairs / all, 1e-12);
}

// Exact attention's time in all heads of all layers is the whole; a head's does not hang on its layer.
TEST(HeadPolicy, TimesAreSharesOfTheWholeModel) {
  SetProgressStyle(ProgressStyle::kOff);
  const SmallModel small = Small();
  const std::vector<HeadSetting> menu = HeadMenu(ParseAttentionSpec("clustered", "test"), HeadCost::kTime);
  const HeadTable table = MeasureHeads(*small.exact, small.texts, {}, menu, AnswersFrom::kMeanState, /*timed=*/true);
  EXPECT_NEAR(2 * table.time.select(1, static_cast<int64_t>(menu.size()) - 1).sum().item<double>(), 1, 1e-12);
  EXPECT_TRUE(torch::equal(table.time[0], table.time[1]));
  EXPECT_TRUE((table.time > 0).all().item<bool>());
}

// Two layers of two heads, three settings from cheap to exact.
HeadTable ByHand() {
  HeadTable table;
  table.error = torch::tensor({4., 1., 0., 4., 1., 0., 4., 1., 0., 4., 1., 0.}, torch::kFloat64).view({2, 2, 3});
  table.weight = torch::tensor({1., 1.}, torch::kFloat64);
  table.pairs = torch::tensor({0.05, 0.1, 0.25, 0.05, 0.1, 0.25}, torch::kFloat64).view({2, 3});
  table.time = torch::tensor({0.02, 0.2, 0.25, 0.02, 0.2, 0.25}, torch::kFloat64).view({2, 3});
  return table;
}

// Of heads whose errors are alike those in the layer that weighs more are spared.
TEST(ChooseSettings, LayersWeigh) {
  HeadTable table = ByHand();
  table.weight[1] = 100;
  EXPECT_EQ(ChooseSettings(table, table.pairs, 0.61, "budget_pairs"), (HeadChoice{{0, 0}, {2, 2}}));
  table.weight[1] = 0.01;
  EXPECT_EQ(ChooseSettings(table, table.pairs, 0.61, "budget_pairs"), (HeadChoice{{2, 2}, {0, 0}}));
}

TEST(ChooseSettings, HeadsErrorsDecide) {
  HeadTable table = ByHand();
  table.error[0][1] *= 50;
  table.error[1][0] *= 50;
  EXPECT_EQ(ChooseSettings(table, table.pairs, 0.61, "budget_pairs"), (HeadChoice{{0, 2}, {2, 0}}));
}

// The same heads under what their settings cost in pairs, and in time.
TEST(ChooseSettings, CostsDecide) {
  const HeadTable table = ByHand();
  EXPECT_EQ(ChooseSettings(table, table.pairs, 0.4, "budget_pairs"), (HeadChoice{{1, 1}, {1, 1}}));
  EXPECT_EQ(ChooseSettings(table, table.time, 0.4, "budget_time"), (HeadChoice{{0, 0}, {0, 0}}));
  HeadTable dear = ByHand();
  dear.pairs[0] *= 3;
  EXPECT_EQ(ChooseSettings(dear, dear.pairs, 0.71, "budget_pairs"), (HeadChoice{{0, 0}, {1, 1}}));
}

// As much as the budget allows, no more; nothing is cheaper than the cheapest.
TEST(ChooseSettings, TheBudgetIsUsedAndKept) {
  const HeadTable table = ByHand();
  EXPECT_EQ(ChooseSettings(table, table.pairs, 1, "budget_pairs"), (HeadChoice{{2, 2}, {2, 2}}));
  EXPECT_EQ(ChooseSettings(table, table.pairs, 0.999, "budget_pairs"), (HeadChoice{{1, 1}, {1, 1}}));
  EXPECT_EQ(ChooseSettings(table, table.pairs, 0.2, "budget_pairs"), (HeadChoice{{0, 0}, {0, 0}}));
  try {
    ChooseSettings(table, table.pairs, 0.19, "budget_pairs");
    FAIL();
  } catch (const UsageError&) {
    FAIL() << "what texts cost is no mistake in the command's use";
  } catch (const Error& error) {
    EXPECT_THAT(error.Spelled("--"),
                ::testing::HasSubstr("--budget_pairs: no setting of the heads comes down to 0.19"));
    EXPECT_THAT(error.Spelled("--"), ::testing::HasSubstr("the least is 0.2"));
  }
}

TEST(FirstOf, TextsAndPairs) {
  const CalibrationTexts texts = Small().texts;  // of 90, 100 and 110 tokens
  const auto first = [&](size_t most, int64_t pairs) { return FirstOf(texts, texts.fitted, most, pairs); };
  EXPECT_EQ(first(5, INT64_MAX), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(first(2, INT64_MAX), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(first(5, 90 * 90 + 100 * 100), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(first(5, 90 * 90 + 100 * 100 - 1), (std::vector<int64_t>{0}));
  EXPECT_EQ(first(5, 1), (std::vector<int64_t>{0}));
}

}  // namespace
}  // namespace lshformer
