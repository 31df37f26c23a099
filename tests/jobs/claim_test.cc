// Verdicts on what sources claim follow from their rules.
#include "jobs/recipes/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lshformer {
namespace {

using ::testing::HasSubstr;
using Kind = Verdict::Kind;

Claim ClaimOf(const std::string& text, double published) {
  Claim claim = ParseClaim(ParseJson(text, "claim"), "r.json: claim 1");
  claim.published = published;
  return claim;
}

Verdict JudgeRatio(const std::string& rule, double published, CellFigure of, CellFigure other) {
  const Claim claim = ClaimOf(R"({"claim": "x", "of": "a/c", "over": "b/c", "rule": )" + rule + "}", published);
  return Judge(claim, of, other, /*quick_form=*/false);
}

TEST(Claim, EqualIsWithinAShare) {
  const Claim claim = ClaimOf(R"({"claim": "x", "of": "a/c", "rule": {"equals": 0.01}})", 200);
  EXPECT_EQ(Judge(claim, {202}, {}, false).kind, Kind::kHolds);
  EXPECT_EQ(Judge(claim, {197}, {}, false).kind, Kind::kFails);
  EXPECT_THAT(Judge(claim, {400}, {}, false).words, HasSubstr("2 times the published figure"));
  EXPECT_THAT(RuleText(claim), HasSubstr("within 1 %"));
}

// 3.25 times as long: as long as it is longer by half of that at least, it holds in size too.
TEST(Claim, DirectionThenSize) {
  const std::string rule = R"({"direction": 0.5, "least": 0.1})";
  EXPECT_EQ(JudgeRatio(rule, 3.25, {30}, {10}).kind, Kind::kHolds);
  EXPECT_EQ(JudgeRatio(rule, 3.25, {15}, {10}).kind, Kind::kDirectionOnly);
  EXPECT_THAT(JudgeRatio(rule, 3.25, {15}, {10}).words, HasSubstr("holds in direction"));
  EXPECT_EQ(JudgeRatio(rule, 3.25, {10.5}, {10}).kind, Kind::kNoDifference);
  EXPECT_EQ(JudgeRatio(rule, 3.25, {5}, {10}).kind, Kind::kFails);
  EXPECT_THAT(JudgeRatio(rule, 3.25, {5}, {10}).words, HasSubstr("the other way round"));
  EXPECT_EQ(JudgeRatio(R"({"direction": true})", 3.25, {100}, {10}).kind, Kind::kHolds) << "of any size";
}

// A difference within that of seeds is none.
TEST(Claim, SeedsMakeNoise) {
  const Claim claim = ClaimOf(R"({"claim": "x", "of": "a/c", "minus": "b/c", "rule": {"direction": true}})", -2);
  EXPECT_EQ(Judge(claim, {70, 0.3}, {71, 0.3}, false).kind, Kind::kHolds);
  const Verdict verdict = Judge(claim, {70, 0.6}, {71, 0.6}, false);
  EXPECT_EQ(verdict.kind, Kind::kNoDifference);
  EXPECT_THAT(verdict.words, HasSubstr("seeds"));
  EXPECT_NEAR(verdict.noise, 2 * std::sqrt(0.72), 1e-9);
}

TEST(Claim, Bounds) {
  EXPECT_EQ(JudgeRatio(R"({"at_most": 1})", 3.25, {1}, {1}).kind, Kind::kHolds);
  EXPECT_EQ(JudgeRatio(R"({"at_most": 1})", 3.25, {1.01}, {1}).kind, Kind::kFails);
  EXPECT_EQ(JudgeRatio(R"({"at_least": 95})", 0, {96}, {1}).kind, Kind::kHolds);
}

TEST(Claim, WhatWasNotMeasuredOrIsTooSmallIsNotJudged) {
  EXPECT_EQ(JudgeRatio(R"({"at_most": 1})", 3.25, {}, {1}).kind, Kind::kNotMeasured);
  EXPECT_EQ(JudgeRatio(R"({"at_most": 1})", 3.25, {1}, {0}).kind, Kind::kNotMeasured);
  Claim claim = ClaimOf(R"({"claim": "x", "of": "a/c", "rule": {"equals": 0}})", 1);
  EXPECT_EQ(Judge(claim, {1}, {}, /*quick_form=*/true).kind, Kind::kNotJudged);
  claim.in_quick_form = true;
  EXPECT_EQ(Judge(claim, {1}, {}, /*quick_form=*/true).kind, Kind::kHolds);
}

}  // namespace
}  // namespace lshformer
