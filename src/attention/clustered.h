// Clustered attention: keys sorted into equal clusters, of which a query meets a few exactly and all others through one
// centroid each. Semantics: docs/attention.md.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace lshformer {

template <class Struct>
struct OptionTable;  // base/option_table.h
struct AttentionSpec;

enum class Directions { kRandom, kStored };  // drawn from the seed; tensors of the model's, drawn beyond what it has

struct ClusteredAttention {
  static constexpr const char* kName = "clustered";
  static constexpr bool kSparse = true;
  static constexpr bool kSharesKeys = false;
  // Added to the spread of a cluster, before its logarithm joins the score that clusters are chosen by.
  static constexpr double kSpreadEpsilon = 1e-6;
  // A centroid that stands for less than this, relative to its cluster's largest weight, takes no part.
  static constexpr double kLeastRest = 1e-12;
  static constexpr int kMostBundled = 64;  // the rows of one tile of products
  // Cuts of queries go along so many directions in turn. Groups need no more than that; bundles, cut finer, are cut
  // along the first ones again, along which what is left differs most.
  static constexpr int kQueryDirections = 6;
  // With a threshold a query opens at most so many times as many clusters as `open` says.
  static constexpr int kMostTimesOpen = 4;

  // Keys of a cluster; of several levels the largest first, each a multiple of the next; empty: auto, by the length.
  std::vector<int> cluster = {};
  // Clusters of each level that a query opens; those of the last level it meets key by key. Auto: one for all levels.
  std::vector<int> open = {4};
  // In place of a fixed number of the last level's: those whose share and spread reach so much (docs/attention.md, "By
  // a threshold"). `open` is then what it was set for, on average; the best is opened whatever its share.
  std::optional<double> threshold = std::nullopt;
  int groups = 4;                               // of queries; a centroid is tilted towards the mean query of each
  int bundle = 1;                               // queries of a group, side by side, that open the same clusters
  Directions directions = Directions::kRandom;  // along which keys and queries are sorted

  bool operator==(const ClusteredAttention&) const = default;
};

const OptionTable<AttentionSpec>& Options(const ClusteredAttention&);
// (open + 1) · cluster + 1 of the last level: with as many tokens there are clusters that are not opened.
int64_t ShortestSparse(const ClusteredAttention& clustered);
int64_t ShortestToPlan(const ClusteredAttention& clustered);
double ScaleOfScores(const ClusteredAttention& clustered, int head_dim);

// Whether they are tensors of the model.
bool StoresDirections(const AttentionSpec& spec);
// Of a layer whose kind this is; null where the head is dense.
const ClusteredAttention* ClusteredOf(const AttentionSpec& spec, int head);

// Clusters of one size in a sequence.
struct ClusterLevel {
  int cluster = 0, open = 0;  // keys of one, and how many of them a query opens at most
  int32_t count = 0;
};
int MostOpenedOfLast(const ClusteredAttention& clustered);  // of the last level's clusters
// Levels of a sequence of `length` tokens, the largest clusters first. There are ⌈length / the largest⌉ of those, and
// each is made of as many of the next level as its size is a multiple of theirs. Auto: as docs/attention.md tells.
std::vector<ClusterLevel> LevelsOf(const ClusteredAttention& clustered, int64_t length);

int32_t ClustersOf(const ClusteredAttention& clustered, int64_t length);  // of the last level
// Bundles that each group of queries is cut into: the fewest that hold no more queries than they may.
int32_t BundlesOfAGroup(const ClusteredAttention& clustered, int64_t length);
int DepthOf(int64_t parts);  // directions that a tree of halves with so many leaves takes: ⌈log₂ parts⌉
// Cuts that lead to a bundle, and the directions that they take.
int QueryCuts(const ClusteredAttention& clustered, int64_t length);
int QueryDirections(const ClusteredAttention& clustered, int64_t length);
// Products of a token's vectors that sorting queries and keys and summing clusters up take: one with every direction,
// and for every group one with its mean, one share in a key's and for each level one in a value's.
int64_t SelectionProducts(const ClusteredAttention& clustered, int64_t length);

}  // namespace lshformer
