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

inline std::vector<AttentionSpec> AllSpecs() {
  std::vector<AttentionSpec> specs{AttentionSpec{}};
  for (const Pairs pairs : {Pairs::kFull, Pairs::kReference}) {
    for (const Fill fill : {Fill::kZero, Fill::kMean, Fill::kNone}) {
      for (const int hashes : {1, 3}) specs.push_back(SimHash(pairs, fill, hashes));
    }
  }
  return specs;
}

inline std::string NameOf(const AttentionSpec& spec) {
  if (spec.type == AttentionType::kDense) return "dense";
  const char* fills[] = {"zero", "mean", "none"};
  return std::string(spec.pairs == Pairs::kFull ? "full_" : "reference_") + fills[static_cast<int>(spec.fill)] + "_h" +
         std::to_string(spec.hashes);
}

}  // namespace lshformer::testing
