#include "base/clustered_attention.h"

#include <bit>

#include "base/attention_options.h"

namespace lshformer {
namespace {

constexpr int64_t kMaxCluster = 1024, kMaxOpen = 1024, kMaxGroups = 64;

AttentionTable Table() {
  using C = ClusteredAttention;
  AttentionSpec defaults{.kind = C{}, .window = 2, .global_first = true, .global_last = true};
  defaults.resample = Resample::kNever;  // directions are drawn once, or stored
  return {
      {Own(Integer("cluster", &C::cluster, 1, kMaxCluster, "keys of a cluster")),
       Own(Integer("open", &C::open, 0, kMaxOpen,
                   "clusters that a query meets key by key; of all others it sees a weighted mean")),
       Own(Integer("groups", &C::groups, 1, kMaxGroups, "groups of queries, each with means of its own")),
       Own(Names("directions", &C::directions, {"random", "stored"},
                 "along which keys are sorted: drawn from the seed, or the model's own tensors, which convert makes")),
       WindowOption(), GlobalOption(), MinLengthOption(), TunedLengthsOption(), SeedOption()},
      CheckMinLength,
      defaults,
      "Clustered attention (changes the model's own; defaults of a new clustered: window 2, global cls,sep)"};
}

}  // namespace

const AttentionTable& Options(const ClusteredAttention&) {
  static const AttentionTable table = Table();
  return table;
}

int64_t ShortestHashed(const ClusteredAttention& clustered) {
  return (int64_t{clustered.open} + 1) * clustered.cluster + 1;
}

int64_t ShortestToPlan(const ClusteredAttention& clustered) { return ShortestHashed(clustered); }

double ScaleOfScores(const ClusteredAttention&, int head_dim) { return RootScale(head_dim); }

bool StoresDirections(const AttentionSpec& spec) {
  return Is<ClusteredAttention>(spec) && As<ClusteredAttention>(spec).directions == Directions::kStored;
}

const ClusteredAttention* ClusteredOf(const AttentionSpec& spec, int head) {
  return std::get_if<ClusteredAttention>(&OfHead(spec, head).kind);
}

int32_t ClustersOf(const ClusteredAttention& clustered, int64_t length) {
  return static_cast<int32_t>((length + clustered.cluster - 1) / clustered.cluster);
}

int DepthOf(int64_t parts) { return parts <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(parts - 1)); }

}  // namespace lshformer
