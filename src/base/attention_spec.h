// Which attention a layer computes: the value behind "attention" in config.json. Semantics: docs/attention.md.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lshformer {

enum class AttentionType { kDense, kSimHash, kReformer };
enum class Fill { kZero, kMean, kNone };  // what a query does with keys it does not collide with
enum class Pairs {
  kFull,
  kReference,
  kSorted
};  // every colliding (query, key), the BERT-LSH authors' mirrored upper triangle, or chunks of a sorted order
enum class Resample { kCall, kNever };    // new planes or rotations at every training step, or the same for ever
enum class ScoreScale { kNone, kSqrtD };  // of Reformer's scores: q·k, or q·k / √d

// What sorted pairs look ahead where nothing is said: their order has no beginning, so both sides are worth the same.
inline constexpr int kSortedLookAhead = 1;

inline constexpr int kAutoLength = -1;        // a min_length "auto": by the lengths that `tune` measured
inline constexpr int kNeverHash = INT32_MAX;  // a length that no sequence reaches; "never" in tuned_lengths

// What `lshformer tune` measured: from how many tokens on hashing is faster than the type's exact form. They are
// numbers of the config, so that a model computes the same on every machine.
struct TunedLengths {
  std::optional<int> forward, forward_backward;  // of each direction that was measured; at least one
  std::string machine;                           // where, for people; "" if not said

  bool operator==(const TunedLengths&) const = default;
};

struct AttentionSpec {
  AttentionType type = AttentionType::kDense;
  // SimHash
  int bands = 2;        // hyperplanes per hash function, 1 … 62; 0: auto, by the sequence's own length
  int hashes = 1;       // hash functions; a pair that collides under several counts once
  int table_size = 64;  // buckets per hash function; 2^bands where bands are auto or pairs sorted
  Fill fill = Fill::kZero;
  Pairs pairs = Pairs::kFull;
  bool center_keys = false;  // hash key − mean key
  // Reformer
  int rounds = 4;                     // each with rotations of its own
  std::array<int, 2> buckets{0, 0};   // even factors; {b, 0}: one; {0, 0}: auto, by the sequence's own length
  int chunk = 64;                     // tokens; SimHash with sorted pairs too
  int look_back = 1, look_ahead = 0;  // chunks; likewise, with kSortedLookAhead
  ScoreScale scale = ScoreScale::kNone;
  bool cross_bucket = true;       // whether a query sees other buckets' keys in its window
  bool wrap = true;               // whether a window goes on from one round into the next
  bool causal = false;            // whether later keys take no part
  bool count_pairs_once = false;  // whether a pair met in several rounds counts as one
  // both
  int window = 0;                                  // neighbours on each side that every query sees
  bool global_first = false, global_last = false;  // [CLS], [SEP]: they see all keys, and all queries see them
  Resample resample = Resample::kCall;
  int min_length = 0;  // shorter sequences use the type's exact form; 0: always hash; kAutoLength
  std::optional<TunedLengths> tuned;
  uint64_t seed = 0;

  bool operator==(const AttentionSpec&) const = default;
};

// Strict: an unknown or ill-typed key, or a value out of range, is an Error that names `where` and suggests the
// nearest key. A JSON string is a type name alone. Keys that do not belong to the type are refused.
AttentionSpec ParseAttentionSpec(const Json& value, std::string_view where);
Json ToJson(const AttentionSpec& spec);  // only the keys that belong to the type; seed included
const char* Name(AttentionType type);    // "dense", "simhash", "reformer"

// Takes the keys out of a SimHash object that say nothing under its "pairs" and "bands", such as a table size where
// bands are auto: what remains of an object after one of the two was changed.
void DropKeysWithoutMeaning(Json& object);

// The min_length in force. "auto" is the largest of the tuned lengths: from there on hashing is slower in none of the
// directions measured. One length for training and inference, because it is part of what the model computes: a sequence
// that was hashed in training is hashed when the model is used.
int MinLength(const AttentionSpec& spec);
// The shortest sequence that is hashed: MinLength; for Reformer at least chunk + 1 (one chunk is the whole sequence),
// for SimHash's sorted pairs the shortest that some window does not hold whole. kNeverHash where none is.
int ShortestHashed(const AttentionSpec& spec);
bool UsesHash(const AttentionSpec& spec, int length);  // length ≥ ShortestHashed

// Whether lengths tuned for one spec hold for the other: they differ in seed, resample and lengths at most.
bool SameWork(const AttentionSpec& a, const AttentionSpec& b);

// What multiplies q·k: 1/√head_dim; 1 for Reformer without `scale`.
double ScaleOfScores(const AttentionSpec& spec, int head_dim);

// SimHash's hyperplanes per hash function for a sequence of `length` tokens. auto: the least number b ≥ 1 with 2^b ≥
// length / 128, so that a bucket holds 64 to 128 tokens where vectors fall evenly; with sorted pairs 2^b ≥ 2 · length /
// chunk, a bucket being at most half a chunk.
int BandsOf(const AttentionSpec& spec, int64_t length);
// Whether every sign pattern is a bucket of its own, Σ bit_b · 2^b, or its place in Gray order: bands auto, sorted.
bool SignPatternsAreBuckets(const AttentionSpec& spec);
// Buckets of SimHash for such a sequence: table_size, or 2^bands.
int64_t TableSizeOf(const AttentionSpec& spec, int64_t length);

// Reformer's buckets for a sequence of `length` tokens: {b, 1}, or two even factors whose product is their number.
// auto: the largest power of two ≤ 2 · length / chunk, at least 2, in two factors above 128.
std::array<int, 2> BucketFactors(const AttentionSpec& spec, int64_t length);
// Columns of a round's rotation matrix: half of each factor.
int RotationColumns(const AttentionSpec& spec, int64_t length);
// Throws where a window of Reformer would come round the circle of all rounds' chunks to where it began, and so count
// its own chunk's pairs twice.
void CheckWindow(const AttentionSpec& spec, int64_t length);

}  // namespace lshformer
