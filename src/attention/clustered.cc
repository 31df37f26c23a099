#include "attention/clustered.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "attention/spec_options.h"
#include "base/number.h"

namespace lshformer {
namespace {

// Auto: clusters of kSmallAutoCluster keys up to kSmallAutoLength tokens, where a query with four open meets as many
// numbers with one size as with the other, then of kAutoCluster (if not all of them were opened), and levels of
// kAutoRatio times the size above while there are more than kAutoTop clusters of the largest: those, which all queries
// meet in whole tiles, cost less than another level. Bundles have no levels, nor have queries that open none.
constexpr int kSmallAutoCluster = 16, kAutoCluster = 32, kAutoRatio = 8, kAutoTop = 256;
constexpr int64_t kSmallAutoLength = 2048;
constexpr int64_t kMaxCluster = 65536, kMaxOpen = 1024, kMaxGroups = 64;

// A number, or a list with one for each level.
std::vector<int> ReadLevels(const Json& object, const char* key, std::string_view where, int64_t low, int64_t high) {
  const Json& value = object.at(key);
  std::vector<int> numbers;
  const auto add = [&](const Json& item) {
    if (!item.is_number_integer() || item.get<int64_t>() < low || item.get<int64_t>() > high)
      Fail("{}: \"{}\": expected {}, or a list of such numbers, got {}", where, key, IntegerRange(low, high),
           ShownValue(item));
    numbers.push_back(item.get<int>());
  };
  if (value.is_array() && !value.empty()) {
    for (const Json& item : value) add(item);
  } else {
    add(value);
  }
  return numbers;
}

Json WriteLevels(const std::vector<int>& numbers) { return numbers.size() == 1 ? Json(numbers[0]) : Json(numbers); }

// Where it is read, `open` begins anew, with its default for each level.
void ReadCluster(const Json& object, std::string_view where, ClusteredAttention& into) {
  into.cluster.clear();
  if (object.at("cluster") != "auto") into.cluster = ReadLevels(object, "cluster", where, 1, kMaxCluster);
  into.open.assign(std::max<size_t>(1, into.cluster.size()), ClusteredAttention{}.open[0]);
  for (size_t level = 1; level < into.cluster.size(); ++level) {
    const int size = into.cluster[level - 1], next = into.cluster[level];
    if (size % next != 0 || size == next)
      Fail("{}: \"cluster\": expected sizes that are multiples of the next, got {} before {}", where, size, next);
  }
}

AttentionOption ClusterOption() {
  Option<ClusteredAttention> option = Custom<ClusteredAttention>(
      "cluster", "auto|N|N,M,…", ReadCluster,
      [](const ClusteredAttention& from) { return from.cluster.empty() ? Json("auto") : WriteLevels(from.cluster); },
      "keys of a cluster; N,M: clusters of clusters, the largest first; auto: by the length");
  option.from_text = NumbersOfText;
  return Own(std::move(option)).Decides();
}

AttentionOption OpenOption() {
  Option<ClusteredAttention> option = Custom<ClusteredAttention>(
      "open", "N|N,M,…",
      [](const Json& object, std::string_view where, ClusteredAttention& into) {
        into.open = ReadLevels(object, "open", where, 0, kMaxOpen);
      },
      [](const ClusteredAttention& from) { return WriteLevels(from.open); },
      "clusters that a query meets key by key, of all others it sees a weighted mean; N,M: of each level");
  option.from_text = NumbersOfText;
  return Own(std::move(option));
}

AttentionOption ThresholdOption() {
  Option<ClusteredAttention> option = Custom<ClusteredAttention>(
      "threshold", "none|NUMBER",
      [](const Json& object, std::string_view where, ClusteredAttention& into) {
        const Json& value = object.at("threshold");
        into.threshold.reset();
        if (value == "none") return;
        if (!value.is_number() || !std::isfinite(value.get<double>()))
          Fail("{}: \"threshold\": expected \"none\" or a number, got {}", where, ShownValue(value));
        into.threshold = value.get<double>();
      },
      [](const ClusteredAttention& from) { return from.threshold ? Json(*from.threshold) : Json("none"); },
      "least share and spread of the clusters that are opened, at most 4 · open; none: as many as open says");
  option.from_text = [](const std::string& text) {
    const std::optional<double> number = ParseNumber<double>(text);
    return number ? Json(*number) : Json(text);
  };
  return Own(std::move(option));
}

void CheckLevels(const AttentionSpec& spec, std::string_view where) {
  CheckMinLength(spec, where);
  const auto& [cluster, open, threshold, groups, bundle, directions] = As<ClusteredAttention>(spec);
  const size_t levels = std::max<size_t>(1, cluster.size());
  if (open.size() != levels)
    Fail("{}: \"open\": expected {}, as \"cluster\" has, got {}", where,
         levels == 1 ? "one number" : fmt::format("{} numbers", levels), open.size());
  if (bundle > 1 && levels > 1)
    Fail("{}: \"bundle\": {} queries share their openings where \"cluster\" is one number or auto, got {}", where,
         bundle, Json(cluster).dump());
  for (size_t level = 0; level + 1 < levels; ++level)
    if (open[level] == 0) Fail("{}: \"open\": expected 0 in its last place at most, got {}", where, Json(open).dump());
  if (threshold && open.back() == 0)
    Fail("{}: \"threshold\": the best cluster is always opened, expected an \"open\" of at least 1, got 0", where);
}

AttentionTable ClusteredTable() {
  using C = ClusteredAttention;
  AttentionSpec defaults{.kind = C{}, .window = 2, .global_first = true, .global_last = true};
  defaults.resample = Resample::kNever;  // directions are drawn once, or stored
  return {
      {ClusterOption(), OpenOption(), ThresholdOption(),
       Own(Integer("groups", &C::groups, 1, kMaxGroups, "groups of queries, each with means of its own")),
       Own(Integer("bundle", &C::bundle, 1, C::kMostBundled,
                   "queries side by side that open the same clusters: 64 in whole tiles, 1 each its own")),
       Own(Names("directions", &C::directions, {"random", "stored"},
                 "along which keys are sorted: drawn from the seed, or the model's own tensors, which convert makes")),
       WindowOption(), GlobalOption(), MinLengthOption(), TunedLengthsOption(), SeedOption()},
      CheckLevels,
      defaults,
      "Clustered attention (changes the model's own; defaults of a new clustered: window 2, global cls,sep)"};
}

}  // namespace

const AttentionTable& Options(const ClusteredAttention&) {
  static const AttentionTable table = ClusteredTable();
  return table;
}

int64_t ShortestSparse(const ClusteredAttention& clustered) {
  const int cluster = clustered.cluster.empty() ? kSmallAutoCluster : clustered.cluster.back();
  return (int64_t{clustered.open.back()} + 1) * cluster + 1;
}

int64_t ShortestToPlan(const ClusteredAttention& clustered) { return ShortestSparse(clustered); }

double ScaleOfScores(const ClusteredAttention&, int head_dim) { return RootScale(head_dim); }

bool StoresDirections(const AttentionSpec& spec) {
  return Is<ClusteredAttention>(spec) && As<ClusteredAttention>(spec).directions == Directions::kStored;
}

const ClusteredAttention* ClusteredOf(const AttentionSpec& spec, int head) {
  return std::get_if<ClusteredAttention>(&OfHead(spec, head).kind);
}

int MostOpenedOfLast(const ClusteredAttention& clustered) {
  return clustered.open.back() * (clustered.threshold ? ClusteredAttention::kMostTimesOpen : 1);
}

std::vector<ClusterLevel> LevelsOf(const ClusteredAttention& clustered, int64_t length) {
  std::vector<ClusterLevel> levels;
  for (size_t level = 0; level < clustered.cluster.size(); ++level)
    levels.push_back({clustered.cluster[level], clustered.open[level]});
  if (clustered.cluster.empty()) {
    const int open = clustered.open[0];
    const bool large = length > std::max(kSmallAutoLength, (int64_t{open} + 1) * kAutoCluster);
    int64_t size = large ? kAutoCluster : kSmallAutoCluster;
    levels.push_back({static_cast<int>(size), open});
    const bool flat = !large || open == 0 || clustered.bundle > 1;
    for (; !flat && length > kAutoTop * size && size * kAutoRatio <= kMaxCluster; size *= kAutoRatio)
      levels.insert(levels.begin(), {static_cast<int>(size * kAutoRatio), open});
  }
  levels.back().open = MostOpenedOfLast(clustered);
  const int largest = levels.front().cluster;
  for (ClusterLevel& level : levels)
    level.count = static_cast<int32_t>((length + largest - 1) / largest * (largest / level.cluster));
  return levels;
}

int32_t ClustersOf(const ClusteredAttention& clustered, int64_t length) {
  return LevelsOf(clustered, length).back().count;
}

int32_t BundlesOfAGroup(const ClusteredAttention& clustered, int64_t length) {
  if (clustered.bundle == 1) return 1;  // the group's one set of labels; each query chooses for itself
  const int64_t queries = (length + clustered.groups - 1) / clustered.groups;
  return static_cast<int32_t>((queries + clustered.bundle - 1) / clustered.bundle);
}

int QueryCuts(const ClusteredAttention& clustered, int64_t length) {
  return DepthOf(clustered.groups) + DepthOf(BundlesOfAGroup(clustered, length));
}

int QueryDirections(const ClusteredAttention& clustered, int64_t length) {
  return std::min(QueryCuts(clustered, length), ClusteredAttention::kQueryDirections);
}

int64_t SelectionProducts(const ClusteredAttention& clustered, int64_t length) {
  const std::vector<ClusterLevel> levels = LevelsOf(clustered, length);
  const int64_t sums = static_cast<int64_t>(2 + levels.size()) * clustered.groups;
  return DepthOf(levels.back().count) + QueryDirections(clustered, length) + sums;
}

int DepthOf(int64_t parts) { return parts <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(parts - 1)); }

}  // namespace lshformer
