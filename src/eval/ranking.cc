#include "eval/ranking.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace lshformer {
namespace {

double RelevanceOf(const RankedDocument& document, const Relevances& relevances) {
  const auto found = relevances.find(document.id);
  return found == relevances.end() ? 0 : std::max(found->second, 0.0);
}

std::span<const RankedDocument> Front(int k, std::span<const RankedDocument> ranking) {
  return ranking.first(std::min(static_cast<size_t>(k), ranking.size()));
}

double Discount(size_t place) { return std::log2(static_cast<double>(place) + 2); }  // from 0

}  // namespace

void SortRanking(std::vector<RankedDocument>& ranking) {
  std::sort(ranking.begin(), ranking.end(), [](const RankedDocument& a, const RankedDocument& b) {
    return a.score > b.score || (a.score == b.score && a.id > b.id);
  });
}

double NdcgAt(int k, std::span<const RankedDocument> ranking, const Relevances& relevances) {
  std::vector<double> ideal;
  for (const auto& [id, relevance] : relevances)
    if (relevance > 0) ideal.push_back(relevance);
  if (ideal.empty()) return 0;
  std::sort(ideal.begin(), ideal.end(), std::greater<>());
  double best = 0, gain = 0;
  for (size_t i = 0; i < std::min(ideal.size(), static_cast<size_t>(k)); ++i) best += ideal[i] / Discount(i);
  const auto front = Front(k, ranking);
  for (size_t i = 0; i < front.size(); ++i) gain += RelevanceOf(front[i], relevances) / Discount(i);
  return gain / best;
}

double MrrAt(int k, std::span<const RankedDocument> ranking, const Relevances& relevances) {
  const auto front = Front(k, ranking);
  for (size_t i = 0; i < front.size(); ++i)
    if (RelevanceOf(front[i], relevances) > 0) return 1 / static_cast<double>(i + 1);
  return 0;
}

double RecallAt(int k, std::span<const RankedDocument> ranking, const Relevances& relevances) {
  const auto relevant =
      std::count_if(relevances.begin(), relevances.end(), [](const auto& judged) { return judged.second > 0; });
  if (relevant == 0) return 0;
  const auto front = Front(k, ranking);
  const auto found = std::count_if(front.begin(), front.end(), [&](const RankedDocument& document) {
    return RelevanceOf(document, relevances) > 0;
  });
  return static_cast<double>(found) / static_cast<double>(relevant);
}

}  // namespace lshformer
