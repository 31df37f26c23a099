// Which attention a conversion writes, of those that were measured.
#include "convert/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "jobs/small_model.h"

namespace lshformer {
namespace {

Candidate Measured(double cosine, double cost, double spread = 0.001, bool other_kind = false) {
  Candidate candidate;
  candidate.cosine = candidate.token_cosine = {cosine, cosine, spread};
  candidate.time_fraction = cost;
  candidate.pairs_fraction = cost / 2;
  candidate.other_kind = other_kind;
  return candidate;
}

constexpr ConversionBudget kTime{HeadCost::kTime, 0.6}, kPairs{HeadCost::kPairs, 0.3};

TEST(BestWithin, KeepsMostOfThoseWithinTheBudget) {
  // The policy of the budget, and a row beside it that is cheaper and keeps more; another keeps most, beyond it.
  const std::vector<Candidate> rows{Measured(0.995, 0.58), Measured(0.9985, 0.52), Measured(0.999, 0.61)};
  EXPECT_EQ(BestWithin(rows, kTime), 1U);
  EXPECT_EQ(BestWithin(rows, kPairs), 1U);  // half of these costs
  EXPECT_EQ(BestWithin(rows, {HeadCost::kPairs, 0.305}), 2U);
  EXPECT_EQ(BestWithin(rows, {HeadCost::kTime, 0.5}), std::nullopt);
  EXPECT_EQ(BestWithin({}, kTime), std::nullopt);
}

TEST(BestWithin, OfEqualsTheCheapest) {
  EXPECT_EQ(BestWithin({Measured(0.99, 0.5), Measured(0.99, 0.4), Measured(0.99, 0.45)}, kTime), 1U);
}

TEST(BestWithin, WhatIsNoNumberIsNotChosen) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(BestWithin({Measured(nan, 0.1), Measured(0.9, 0.5), Measured(0.95, nan)}, kTime), 1U);
}

// Clustered attention is what is asked for; another kind has to be better beyond what texts differ by.
TEST(BestWithin, AnotherKindBeyondTheSpreadAlone) {
  EXPECT_EQ(BestWithin({Measured(0.99, 0.5, 0.002), Measured(0.9915, 0.4, 0.002, true)}, kTime), 0U);
  EXPECT_EQ(BestWithin({Measured(0.99, 0.5, 0.002), Measured(0.9915, 0.4, 0.001, true)}, kTime), 1U);
  EXPECT_EQ(BestWithin({Measured(0.9, 0.5, NAN), Measured(0.95, 0.4, NAN, true)}, kTime), 0U);
  EXPECT_EQ(BestWithin({Measured(0.9, 0.7), Measured(0.95, 0.4, 0, true)}, kTime), std::nullopt);
  std::vector<Candidate> rows{Measured(0.9, 0.5), Measured(0.95, 0.4, 0, true)};
  rows[1].comparison = true;
  EXPECT_EQ(BestWithin(rows, kTime), 0U);
}

const std::vector<int> kLengths{130, 133, 136, 139, 142, 145, 148, 151};

// What is written is beaten on both cost and quality by no row beside it.
TEST(ChooseWithin, IsNotBeatenByItsOwnTable) {
  const SmallModel small(160, kLengths, /*held_out_every=*/4);
  QualityMeter meter(*small.exact, small.texts);
  const ConversionField field{*small.exact, small.texts, small.directions, meter, small.Base()};
  for (const double share : {0.35, 0.6}) {
    SCOPED_TRACE(share);
    const std::vector<Candidate> rows = ChooseWithin(field, {HeadCost::kPairs, share});
    const Candidate& chosen = rows.front();
    EXPECT_EQ(chosen.name, "this conversion");
    EXPECT_LE(chosen.pairs_fraction, share);
    EXPECT_EQ(chosen.pairs_fraction,
              meter.PairsFraction(small.directions, chosen.attention, QualityMeter::Texts::kAll));
    ASSERT_EQ(chosen.attention.size(), 2U);
    for (size_t i = 1; i < rows.size(); ++i) {
      const auto &row = rows[i].token_cosine, &own = chosen.token_cosine;
      const double spread = rows[i].other_kind ? std::min(row.spread, own.spread) : 0;
      EXPECT_FALSE(row.mean - own.mean > spread && rows[i].pairs_fraction < chosen.pairs_fraction)
          << rows[i].name << rows[i].setting;
      EXPECT_GT(rows[i].time_fraction, 0);
      EXPECT_GE(rows[i].time_spread, 0);
    }
    // Where another row than the settings head by head was chosen, both are in the table.
    const auto is_policy = [&](const Candidate& row) { return row.name == "head by head" && row.budget == share; };
    EXPECT_EQ(std::any_of(rows.begin(), rows.end(), is_policy), chosen.setting != "head by head");
  }
  EXPECT_THROW(ChooseWithin(field, {HeadCost::kPairs, 0.01}), Error);
}

TEST(CompareBeside, WhatWasAskedForIsTheFirst) {
  const SmallModel small(160, kLengths, /*held_out_every=*/4);
  QualityMeter meter(*small.exact, small.texts);
  const ConversionField field{*small.exact, small.texts, small.directions, meter, small.Base()};
  const std::vector<Candidate> rows = CompareBeside(field, PerLayer(AttentionSpec{}, small.exact->config()));
  EXPECT_EQ(rows.front().pairs_fraction, 1);
  EXPECT_EQ(rows.front().time_fraction, 1);  // exact attention's time is its own
  EXPECT_EQ(rows.front().time_spread, 0);
  EXPECT_NEAR(rows.front().cosine.mean, 1, 1e-12);
  ASSERT_EQ(rows.size(), 6U);  // three of clusters, two other kinds
  EXPECT_EQ(rows[3].setting + rows[4].setting + rows[5].setting, "open 1open 2open 4");
}

// What is left of a conversion is estimated from the work: a gate is one map more.
TEST(ConversionWork, CountsTheGate) {
  SmallModel model(/*positions=*/64, {40, 50});
  ModelConfig gated = model.exact->config();
  gated.shape.gated = true;
  const ConversionWork plain{model.exact->config(), model.texts}, more{gated, model.texts};
  EXPECT_DOUBLE_EQ(more.Forward({0, 1}) - plain.Forward({0, 1}), 2.0 * 2 * (40 + 50) * 16 * 24);
}

}  // namespace
}  // namespace lshformer
