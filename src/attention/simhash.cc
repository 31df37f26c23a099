#include "attention/simhash.h"

#include <algorithm>

#include "attention/spec_options.h"

namespace lshformer {
namespace {

constexpr int64_t kMaxHashes = 1024;       // planes are [heads, hashes, bands, d]
constexpr int64_t kMaxBands = 62;          // sign patterns fit an int64
constexpr int64_t kMaxSortedBands = 30;    // places in the order of sign patterns fit an int32
constexpr int64_t kTokensOfABucket = 128;  // at most, of bands auto where vectors fall evenly: two tiles of rows

void ReadBands(const Json& object, std::string_view where, SimHashAttention& into) {
  const Json& value = object.at("bands");
  if (value == "auto") {
    if (into.pairs == Pairs::kReference)
      Fail("{}: \"bands\": \"auto\" is not what the authors' \"pairs\" \"reference\" does, expected a number", where);
    into.bands = 0;
    return;
  }
  const int64_t most = into.pairs == Pairs::kSorted ? kMaxSortedBands : kMaxBands;
  if (!value.is_number_integer())
    Fail("{}: \"bands\": expected 1 to {} or \"auto\", got {}", where, most, ShownValue(value));
  into.bands = static_cast<int>(GetInt(object, "bands", where, 1, most));
}

Json WriteBands(const SimHashAttention& from) { return from.bands == 0 ? Json("auto") : Json(from.bands); }

std::string NoTableSize(const SimHashAttention& simhash) {
  if (!SignPatternsAreBuckets(simhash)) return "";
  return fmt::format("it is 2^bands with {}",
                     simhash.pairs == Pairs::kSorted ? "\"pairs\" \"sorted\"" : "\"bands\" \"auto\"");
}

std::string NoChunks(const SimHashAttention& simhash) {
  return simhash.pairs == Pairs::kSorted ? "" : "only \"pairs\" \"sorted\" has chunks";
}

void Check(const AttentionSpec& spec, std::string_view where) {
  CheckMinLength(spec, where);
  const bool always = spec.window > 0 || spec.global_first || spec.global_last;
  if (always && As<SimHashAttention>(spec).pairs == Pairs::kReference)
    Fail("{}: \"{}\": \"pairs\" \"reference\" takes its pairs from the hash alone, as the authors' code does", where,
         spec.window > 0 ? "window" : "global");
}

// Of chunks the help says what Reformer's are.
AttentionTable SimHashTable() {
  using S = SimHashAttention;
  return {{Own(Custom<S>("bands", "auto|N", ReadBands, WriteBands,
                         "hyperplanes per hash function; auto: by the length (sorted: default)")),
           Own(Integer("hashes", &S::hashes, 1, kMaxHashes,
                       "hash functions; a pair that collides under several counts once")),
           Own(Integer("table_size", &S::table_size, 1, kMaxTableSize, "buckets per hash function")
                   .MeaninglessIf(NoTableSize)),
           Own(Names("fill", &S::fill, {"zero", "mean", "none"}, "score of the pairs that do not collide")),
           Own(Names("pairs", &S::pairs, {"full", "reference", "sorted"},
                     "every colliding pair, the authors' mirrored upper triangle, or chunks of a sorted order "
                     "(chunk, look_back, look_ahead)")
                   .Decides()
                   .Then([](S& s) { s.bands = s.pairs == Pairs::kSorted ? 0 : s.bands; })),
           Own(Integer("chunk", &S::chunk, 1, kMaxChunk, "").MeaninglessIf(NoChunks)),
           Own(Integer("look_back", &S::look_back, 0, kMaxLook, "").MeaninglessIf(NoChunks)),
           Own(Integer("look_ahead", &S::look_ahead, 0, kMaxLook, "").MeaninglessIf(NoChunks)), WindowOption(),
           GlobalOption(), ResampleOption(), Own(Boolean("center_keys", &S::center_keys, "hash key − mean key")),
           MinLengthOption(), TunedLengthsOption(), SeedOption()},
          Check,
          {.kind = S{}},
          "Attention (changes the model's own; defaults of a new simhash)"};
}

}  // namespace

const AttentionTable& Options(const SimHashAttention&) {
  static const AttentionTable table = SimHashTable();
  return table;
}

int64_t ShortestSparse(const SimHashAttention& simhash) {
  if (simhash.pairs != Pairs::kSorted) return 0;
  return int64_t{simhash.chunk} * (1 + std::min(simhash.look_back, simhash.look_ahead)) + 1;
}

int64_t ShortestToPlan(const SimHashAttention& simhash) {
  return std::min<int64_t>(ShortestSparse(simhash), kNeverSparse);
}

double ScaleOfScores(const SimHashAttention&, int head_dim) { return RootScale(head_dim); }

bool SignPatternsAreBuckets(const SimHashAttention& simhash) {
  return simhash.bands == 0 || simhash.pairs == Pairs::kSorted;
}

int BandsOf(const SimHashAttention& simhash, int64_t length) {
  if (simhash.bands != 0) return simhash.bands;
  const bool sorted = simhash.pairs == Pairs::kSorted;
  const int64_t places = sorted ? 2 * length : length, tokens = sorted ? simhash.chunk : kTokensOfABucket;
  int bands = 1;
  while (bands < kMaxSortedBands && (tokens << bands) < places) ++bands;
  return bands;
}

int64_t TableSizeOf(const SimHashAttention& simhash, int64_t length) {
  return SignPatternsAreBuckets(simhash) ? int64_t{1} << BandsOf(simhash, length) : simhash.table_size;
}

}  // namespace lshformer
