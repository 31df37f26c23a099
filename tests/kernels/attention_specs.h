// The modes that tests go through, and their names.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "attention/spec.h"

namespace lshformer::testing {

inline AttentionSpec SimHash(Pairs pairs, Fill fill, int hashes, int table_size = 4) {
  return {.kind = SimHashAttention{.hashes = hashes, .table_size = table_size, .fill = fill, .pairs = pairs}};
}

// Chunks of 16; few buckets, so that order within one matters too.
inline AttentionSpec Sorted(Fill fill, int hashes, int look_back = 1, int look_ahead = 1) {
  AttentionSpec spec = SimHash(Pairs::kSorted, fill, hashes, 5);
  auto& simhash = As<SimHashAttention>(spec);
  simhash.bands = 0;
  simhash.chunk = 16;
  simhash.look_back = look_back;
  simhash.look_ahead = look_ahead;
  return spec;
}

inline std::vector<AttentionSpec> SortedSpecs() {
  std::vector<AttentionSpec> specs{
      Sorted(Fill::kZero, 1), Sorted(Fill::kMean, 1),       Sorted(Fill::kNone, 1),       Sorted(Fill::kZero, 3),
      Sorted(Fill::kMean, 2), Sorted(Fill::kNone, 3, 2, 0), Sorted(Fill::kNone, 2, 0, 0), Sorted(Fill::kZero, 2, 0, 2)};
  specs.push_back(Sorted(Fill::kMean, 2, 0, 1));
  As<SimHashAttention>(specs.back()).chunk = 70;  // more than a tile
  return specs;
}

// 8 buckets; chunks of 16.
inline AttentionSpec Reformer(int rounds, int look_back = 1, int look_ahead = 0) {
  return {.kind = ReformerAttention{
              .rounds = rounds, .buckets = {8, 0}, .chunk = 16, .look_back = look_back, .look_ahead = look_ahead}};
}

inline AttentionSpec WithAlways(AttentionSpec spec, int window, bool global_first, bool global_last) {
  spec.window = window;
  spec.global_first = global_first;
  spec.global_last = global_last;
  return spec;
}

// Every option once alone, and those that meet in one rule together.
inline std::vector<AttentionSpec> ReformerSpecs() {
  std::vector<AttentionSpec> specs{Reformer(1), Reformer(4), Reformer(1, 1, 1), Reformer(2, 2, 1), Reformer(2, 0, 0)};
  const auto add = [&specs](AttentionSpec spec, auto change) {
    change(As<ReformerAttention>(spec));
    specs.push_back(spec);
  };
  add(Reformer(3), [](ReformerAttention& r) { r.scale = ScoreScale::kSqrtD; });
  add(Reformer(3), [](ReformerAttention& r) { r.chunk = 70; });  // more than a tile
  add(Reformer(2), [](ReformerAttention& r) { r.cross_bucket = false; });
  add(Reformer(2, 1, 1), [](ReformerAttention& r) { r.wrap = false; });
  add(Reformer(2), [](ReformerAttention& r) { r.causal = true; });
  add(Reformer(3, 2, 1), [](ReformerAttention& r) { r.count_pairs_once = true; });
  add(Reformer(1, 1, 1), [](ReformerAttention& r) { r.count_pairs_once = true; });
  add(Reformer(3), [](ReformerAttention& r) { r.count_pairs_once = true, r.wrap = false, r.causal = true; });
  add(Reformer(3, 1, 1), [](ReformerAttention& r) { r.count_pairs_once = true, r.cross_bucket = false; });
  add(WithAlways(Reformer(2), 5, true, true), [](ReformerAttention&) {});
  add(WithAlways(Reformer(1, 0, 1), 70, false, true), [](ReformerAttention& r) { r.causal = true; });
  add(WithAlways(Reformer(2), 0, true, false), [](ReformerAttention& r) { r.cross_bucket = false; });
  add(WithAlways(Reformer(3), 3, true, true), [](ReformerAttention& r) { r.count_pairs_once = true, r.wrap = false; });
  return specs;
}

// [heads, this many, tokens] buckets.
inline int HashesOf(const DenseAttention&) { return 1; }
inline int HashesOf(const LocalAttention&) { return 1; }
inline int HashesOf(const SimHashAttention& simhash) { return simhash.hashes; }
inline int HashesOf(const ReformerAttention& reformer) { return reformer.rounds; }
inline int HashesOf(const ClusteredAttention&) { return 1; }
inline int HashesOf(const AttentionSpec& spec) {
  return std::visit([](const auto& kind) { return HashesOf(kind); }, spec.kind);
}

inline AttentionSpec Local(int window) { return {.kind = LocalAttention{}, .window = window}; }

// No neighbour; less than a vector; a tile's middle that all rows see, in whole blocks and not; many tests' texts
// whole.
inline std::vector<AttentionSpec> LocalSpecs() { return {Local(0), Local(3), Local(41), Local(64), Local(290)}; }

// Whether ready buckets can stand in for what a kind finds.
inline bool HasBuckets(const AttentionSpec& spec) { return IsSparse(spec); }

inline AttentionSpec Clustered(int cluster, int open, int groups) {
  return {.kind = ClusteredAttention{.cluster = {cluster}, .open = {open}, .groups = groups}};
}

inline AttentionSpec Bundled(int cluster, int open, int groups, int bundle) {
  return {.kind = ClusteredAttention{.cluster = {cluster}, .open = {open}, .groups = groups, .bundle = bundle}};
}

inline AttentionSpec Levels(std::vector<int> cluster, std::vector<int> open, int groups) {
  return {.kind = ClusteredAttention{.cluster = std::move(cluster), .open = std::move(open), .groups = groups}};
}

inline AttentionSpec WithThreshold(AttentionSpec spec, double threshold) {
  As<ClusteredAttention>(spec).threshold = threshold;
  return spec;
}

// Every option once alone; bundles: of fewer queries than a vector, of more, of all of a group, more opened than there
// are; levels: one opened, all there are, more than there are, none of the last, empty clusters.
inline std::vector<AttentionSpec> ClusteredSpecs() {
  return {Clustered(8, 2, 4),
          Clustered(16, 0, 3),
          Clustered(1, 3, 1),
          WithAlways(Clustered(8, 2, 4), 2, true, true),
          WithAlways(Clustered(5, 1, 64), 20, false, false),
          WithAlways(Clustered(2, 1, 2), 0, true, true),
          WithAlways(Clustered(70, 1, 2), 3, false, true),
          Bundled(8, 3, 4, 16),
          WithAlways(Bundled(8, 2, 3, 5), 2, true, true),
          WithAlways(Bundled(8, 3, 2, 20), 0, true, true),
          WithAlways(Bundled(16, 0, 2, 20), 0, false, true),
          WithAlways(Bundled(16, 4, 2, 64), 3, true, true),
          WithAlways(Bundled(4, 2, 64, 2), 1, false, true),
          WithAlways(Bundled(16, 0, 1, 40), 2, true, false),
          WithAlways(Bundled(16, 2, 20, 8), 70, true, true),
          Levels({32, 8}, {2, 3}, 4),
          WithAlways(Levels({32, 8}, {2, 3}, 4), 2, true, true),
          WithAlways(Levels({24, 12, 4}, {3, 2, 5}, 3), 3, true, true),
          Levels({24, 12, 4}, {3, 2, 5}, 3),
          WithAlways(Levels({16, 8}, {1, 1}, 2), 2, true, false),
          WithAlways(Levels({64, 4}, {9, 0}, 2), 1, true, true),
          WithAlways(Levels({20, 10}, {1, 4}, 5), 30, true, true),
          WithAlways(Levels({24, 12, 4}, {3, 2, 5}, 20), 40, true, true),
          WithAlways(Levels({256, 1}, {1, 3}, 2), 2, true, true),
          WithThreshold(Clustered(16, 1, 3), -1),
          WithThreshold(WithAlways(Clustered(8, 2, 4), 2, true, true), 0.5),
          WithThreshold(WithAlways(Bundled(8, 2, 3, 5), 2, true, true), 0.5),
          WithThreshold(WithAlways(Bundled(8, 3, 2, 20), 0, true, true), -2),
          WithThreshold(WithAlways(Levels({32, 8}, {2, 3}, 4), 2, true, true), 0.5)};
}

// Of a kind that has chunks.
inline void SetChunk(AttentionSpec& spec, int chunk) {
  const auto set = [chunk](auto& kind) {
    if constexpr (requires { kind.chunk; }) kind.chunk = chunk;
  };
  std::visit(set, spec.kind);
}

inline std::vector<AttentionSpec> DenseAndSimHashSpecs() {
  std::vector<AttentionSpec> specs{AttentionSpec{}};
  for (const Pairs pairs : {Pairs::kFull, Pairs::kReference}) {
    for (const Fill fill : {Fill::kZero, Fill::kMean, Fill::kNone}) {
      for (const int hashes : {1, 3}) specs.push_back(SimHash(pairs, fill, hashes));
    }
  }
  const std::vector<AttentionSpec> sorted = SortedSpecs();
  specs.insert(specs.end(), sorted.begin(), sorted.end());
  specs.push_back(WithAlways(SimHash(Pairs::kFull, Fill::kZero, 1), 3, true, true));
  specs.push_back(WithAlways(SimHash(Pairs::kFull, Fill::kMean, 3), 70, false, false));
  specs.push_back(WithAlways(SimHash(Pairs::kFull, Fill::kNone, 1), 0, true, false));
  specs.push_back(WithAlways(Sorted(Fill::kZero, 1), 2, true, true));
  specs.push_back(WithAlways(Sorted(Fill::kNone, 3, 0, 0), 9, false, true));
  return specs;
}

inline std::vector<AttentionSpec> AllSpecs() {
  std::vector<AttentionSpec> specs = DenseAndSimHashSpecs();
  for (const std::vector<AttentionSpec>& of_kind : {LocalSpecs(), ReformerSpecs()})
    specs.insert(specs.end(), of_kind.begin(), of_kind.end());
  return specs;
}

inline std::string NameOfAlways(const AttentionSpec& spec) {
  if (spec.window == 0 && !spec.global_first && !spec.global_last) return "";
  return "_w" + std::to_string(spec.window) + (spec.global_first ? "_cls" : "") + (spec.global_last ? "_sep" : "");
}

inline std::string NameOf(const ReformerAttention& reformer) {
  std::string name = "reformer_r" + std::to_string(reformer.rounds) + "_c" + std::to_string(reformer.chunk) + "_b" +
                     std::to_string(reformer.look_back) + "_a" + std::to_string(reformer.look_ahead);
  if (reformer.scale == ScoreScale::kSqrtD) name += "_sqrt_d";
  if (!reformer.cross_bucket) name += "_own_bucket";
  if (!reformer.wrap) name += "_no_wrap";
  if (reformer.causal) name += "_causal";
  if (reformer.count_pairs_once) name += "_once";
  return name;
}

inline std::string NameOf(const SimHashAttention& simhash) {
  const char* fills[] = {"zero", "mean", "none"};
  const char* pairs[] = {"full_", "reference_", "sorted_"};
  std::string name = std::string(pairs[static_cast<int>(simhash.pairs)]) + fills[static_cast<int>(simhash.fill)] +
                     "_h" + std::to_string(simhash.hashes);
  if (simhash.pairs == Pairs::kSorted)
    name += "_c" + std::to_string(simhash.chunk) + "_b" + std::to_string(simhash.look_back) + "_a" +
            std::to_string(simhash.look_ahead);
  return name;
}

inline std::string NameOf(const DenseAttention&) { return "dense"; }
inline std::string NameOf(const LocalAttention&) { return "local"; }

inline std::string NameOf(const ClusteredAttention& clustered) {
  std::string name = "clustered_c";
  for (const int size : clustered.cluster) name += std::to_string(size) + "_";
  name += "o";
  for (const int open : clustered.open) name += std::to_string(open) + "_";
  name += "g" + std::to_string(clustered.groups);
  if (clustered.bundle > 1) name += "_s" + std::to_string(clustered.bundle);
  if (clustered.threshold) name += *clustered.threshold < 0 ? "_low_threshold" : "_threshold";
  return name;
}

inline std::string NameOf(const AttentionSpec& spec) {
  return std::visit([](const auto& kind) { return NameOf(kind); }, spec.kind) + NameOfAlways(spec);
}

}  // namespace lshformer::testing
