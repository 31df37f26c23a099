// Figures of rankings, by hand and as pytrec_eval has them (tools/make_ranking_golden.py).
#include "eval/ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/json.h"

namespace lshformer::testing {
namespace {

TEST(Ranking, EqualScoresStandByIdTheLastFirst) {
  std::vector<RankedDocument> ranking{{"a", 1}, {"c", 1}, {"b", 2}, {"d", 0.5F}};
  SortRanking(ranking);
  std::string order;
  for (const RankedDocument& document : ranking) order += document.id;
  EXPECT_EQ(order, "bcad");
}

TEST(Ranking, ByHand) {
  const std::vector<RankedDocument> ranking{{"x", 3}, {"b", 2}, {"a", 1}};
  const Relevances relevances{{"a", 2}, {"b", 1}, {"c", 1}, {"x", 0}, {"y", -1}};
  const double ideal = 2 + 1 / std::log2(3.0) + 1 / std::log2(4.0);
  EXPECT_DOUBLE_EQ(NdcgAt(10, ranking, relevances), (1 / std::log2(3.0) + 2 / std::log2(4.0)) / ideal);
  EXPECT_DOUBLE_EQ(NdcgAt(1, ranking, relevances), 0);
  EXPECT_DOUBLE_EQ(MrrAt(10, ranking, relevances), 0.5);
  EXPECT_DOUBLE_EQ(MrrAt(1, ranking, relevances), 0);
  EXPECT_DOUBLE_EQ(RecallAt(2, ranking, relevances), 1.0 / 3);
  EXPECT_DOUBLE_EQ(RecallAt(100, ranking, relevances), 2.0 / 3);
}

TEST(Ranking, NothingIsRelevant) {
  const std::vector<RankedDocument> ranking{{"x", 3}};
  for (const Relevances& relevances : {Relevances{}, Relevances{{"x", 0}}, Relevances{{"x", -1}}}) {
    EXPECT_EQ(NdcgAt(10, ranking, relevances), 0);
    EXPECT_EQ(MrrAt(10, ranking, relevances), 0);
    EXPECT_EQ(RecallAt(100, ranking, relevances), 0);
  }
}

TEST(Ranking, AsPytrecEval) {
  const Json golden = ReadJsonObject(LSHFORMER_SOURCE_DIR "/tests/golden/ranking.json");
  ASSERT_GE(golden["queries"].size(), 50U);
  for (const Json& query : golden["queries"]) {
    Relevances relevances;
    for (const auto& [id, relevance] : query["qrels"].items()) relevances.emplace(id, relevance.get<int>());
    std::vector<RankedDocument> ranking;
    for (const auto& [id, score] : query["run"].items()) ranking.push_back({id, score.get<float>()});
    SortRanking(ranking);
    EXPECT_NEAR(NdcgAt(10, ranking, relevances), query["ndcg_cut_10"].get<double>(), 1e-12);
    EXPECT_NEAR(RecallAt(100, ranking, relevances), query["recall_100"].get<double>(), 1e-12);
    EXPECT_NEAR(MrrAt(10, ranking, relevances), query["recip_rank_10"].get<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace lshformer::testing
