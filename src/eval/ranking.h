// How good a ranking of documents is, as trec_eval (and so BEIR) reckons it.
//
// Documents stand by score, the largest first; equal scores (of float32) by id, the last in order of bytes first. With
// rel_i the relevance of the document at place i, 0 where it is not above 0 or nobody judged it:
//
//   DCG@k   = Σ_{i ≤ k} rel_i / log2(i + 1)
//   nDCG@k  = DCG@k / DCG@k of all judged documents by relevance       0 where no document is relevant
//   MRR@k   = 1 / place of the first relevant document up to k         0 where there is none
//   recall@k = relevant documents up to k / relevant documents         0 where there is none
#pragma once
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lshformer {

struct RankedDocument {
  std::string id;
  float score = 0;
};
using Relevances = std::unordered_map<std::string, double>;  // by id of document

void SortRanking(std::vector<RankedDocument>& ranking);  // into that order

// Of a ranking in that order. k ≥ 1.
double NdcgAt(int k, std::span<const RankedDocument> ranking, const Relevances& relevances);
double MrrAt(int k, std::span<const RankedDocument> ranking, const Relevances& relevances);
double RecallAt(int k, std::span<const RankedDocument> ranking, const Relevances& relevances);

}  // namespace lshformer
