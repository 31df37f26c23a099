// The modes that tests go through, and their names.
#pragma once
#include <string>
#include <vector>

#include "base/attention_spec.h"

namespace lshformer::testing {

inline AttentionSpec SimHash(Pairs pairs, Fill fill, int hashes, int table_size = 4) {
  AttentionSpec spec;
  spec.type = AttentionType::kSimHash;
  spec.pairs = pairs;
  spec.fill = fill;
  spec.hashes = hashes;
  spec.table_size = table_size;
  return spec;
}

// Chunks of 16; few buckets, so that order within one matters too.
inline AttentionSpec Sorted(Fill fill, int hashes, int look_back = 1, int look_ahead = 1) {
  AttentionSpec spec = SimHash(Pairs::kSorted, fill, hashes, 5);
  spec.bands = 0;
  spec.chunk = 16;
  spec.look_back = look_back;
  spec.look_ahead = look_ahead;
  return spec;
}

inline std::vector<AttentionSpec> SortedSpecs() {
  std::vector<AttentionSpec> specs{
      Sorted(Fill::kZero, 1), Sorted(Fill::kMean, 1),       Sorted(Fill::kNone, 1),       Sorted(Fill::kZero, 3),
      Sorted(Fill::kMean, 2), Sorted(Fill::kNone, 3, 2, 0), Sorted(Fill::kNone, 2, 0, 0), Sorted(Fill::kZero, 2, 0, 2)};
  specs.push_back(Sorted(Fill::kMean, 2, 0, 1));
  specs.back().chunk = 70;  // more than a tile
  return specs;
}

// 8 buckets; chunks of 16.
inline AttentionSpec Reformer(int rounds, int look_back = 1, int look_ahead = 0) {
  AttentionSpec spec;
  spec.type = AttentionType::kReformer;
  spec.rounds = rounds;
  spec.buckets = {8, 0};
  spec.chunk = 16;
  spec.look_back = look_back;
  spec.look_ahead = look_ahead;
  return spec;
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
    change(spec);
    specs.push_back(spec);
  };
  add(Reformer(3), [](AttentionSpec& s) { s.scale = ScoreScale::kSqrtD; });
  add(Reformer(3), [](AttentionSpec& s) { s.chunk = 70; });  // more than a tile
  add(Reformer(2), [](AttentionSpec& s) { s.cross_bucket = false; });
  add(Reformer(2, 1, 1), [](AttentionSpec& s) { s.wrap = false; });
  add(Reformer(2), [](AttentionSpec& s) { s.causal = true; });
  add(Reformer(3, 2, 1), [](AttentionSpec& s) { s.count_pairs_once = true; });
  add(Reformer(1, 1, 1), [](AttentionSpec& s) { s.count_pairs_once = true; });
  add(Reformer(3), [](AttentionSpec& s) { s.count_pairs_once = true, s.wrap = false, s.causal = true; });
  add(Reformer(3, 1, 1), [](AttentionSpec& s) { s.count_pairs_once = true, s.cross_bucket = false; });
  add(WithAlways(Reformer(2), 5, true, true), [](AttentionSpec&) {});
  add(WithAlways(Reformer(1, 0, 1), 70, false, true), [](AttentionSpec& s) { s.causal = true; });
  add(WithAlways(Reformer(2), 0, true, false), [](AttentionSpec& s) { s.cross_bucket = false; });
  add(WithAlways(Reformer(3), 3, true, true), [](AttentionSpec& s) { s.count_pairs_once = true, s.wrap = false; });
  return specs;
}

// [heads, this many, tokens] buckets.
inline int HashesOf(const AttentionSpec& spec) {
  return spec.type == AttentionType::kReformer ? spec.rounds : spec.hashes;
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
  const std::vector<AttentionSpec> reformers = ReformerSpecs();
  specs.insert(specs.end(), reformers.begin(), reformers.end());
  return specs;
}

inline std::string NameOfAlways(const AttentionSpec& spec) {
  if (spec.window == 0 && !spec.global_first && !spec.global_last) return "";
  return "_w" + std::to_string(spec.window) + (spec.global_first ? "_cls" : "") + (spec.global_last ? "_sep" : "");
}

inline std::string NameOfReformer(const AttentionSpec& spec) {
  std::string name = "reformer_r" + std::to_string(spec.rounds) + "_c" + std::to_string(spec.chunk) + "_b" +
                     std::to_string(spec.look_back) + "_a" + std::to_string(spec.look_ahead);
  if (spec.scale == ScoreScale::kSqrtD) name += "_sqrt_d";
  if (!spec.cross_bucket) name += "_own_bucket";
  if (!spec.wrap) name += "_no_wrap";
  if (spec.causal) name += "_causal";
  if (spec.count_pairs_once) name += "_once";
  return name + NameOfAlways(spec);
}

inline std::string NameOf(const AttentionSpec& spec) {
  if (spec.type == AttentionType::kDense) return "dense";
  if (spec.type == AttentionType::kReformer) return NameOfReformer(spec);
  const char* fills[] = {"zero", "mean", "none"};
  const char* pairs[] = {"full_", "reference_", "sorted_"};
  std::string name = std::string(pairs[static_cast<int>(spec.pairs)]) + fills[static_cast<int>(spec.fill)] + "_h" +
                     std::to_string(spec.hashes);
  if (spec.pairs == Pairs::kSorted)
    name += "_c" + std::to_string(spec.chunk) + "_b" + std::to_string(spec.look_back) + "_a" +
            std::to_string(spec.look_ahead);
  return name + NameOfAlways(spec);
}

}  // namespace lshformer::testing
