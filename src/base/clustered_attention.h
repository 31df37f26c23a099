// Clustered attention: keys sorted into equal clusters, of which a query meets a few exactly and all others through one
// centroid each. Semantics: docs/attention.md.
#pragma once
#include <cstdint>

namespace lshformer {

template <class Struct>
struct OptionTable;  // base/option_table.h
struct AttentionSpec;

enum class Directions { kRandom, kStored };  // drawn from the seed; tensors of the model's, drawn beyond what it has

struct ClusteredAttention {
  static constexpr const char* kName = "clustered";
  static constexpr bool kHashes = true;
  static constexpr bool kSharesKeys = false;
  // Added to the spread of a cluster, before its logarithm joins the score that clusters are chosen by.
  static constexpr double kSpreadEpsilon = 1e-6;
  // A centroid that stands for less than this, relative to its cluster's largest weight, takes no part.
  static constexpr double kLeastRest = 1e-12;

  int cluster = 16;                             // keys of a cluster
  int open = 4;                                 // clusters that a query meets key by key
  int groups = 4;                               // of queries; a centroid is tilted towards the mean query of each
  Directions directions = Directions::kRandom;  // along which keys and queries are sorted

  bool operator==(const ClusteredAttention&) const = default;
};

const OptionTable<AttentionSpec>& Options(const ClusteredAttention&);
// (open + 1) · cluster + 1: with as many tokens there are clusters that are not opened.
int64_t ShortestHashed(const ClusteredAttention& clustered);
int64_t ShortestToPlan(const ClusteredAttention& clustered);
double ScaleOfScores(const ClusteredAttention& clustered, int head_dim);

// Whether they are tensors of the model.
bool StoresDirections(const AttentionSpec& spec);
// Of a layer whose kind this is; null where the head is dense.
const ClusteredAttention* ClusteredOf(const AttentionSpec& spec, int head);

int32_t ClustersOf(const ClusteredAttention& clustered, int64_t length);  // ⌈length / cluster⌉
int DepthOf(int64_t parts);  // directions that a tree of halves with so many leaves takes: ⌈log₂ parts⌉

}  // namespace lshformer
