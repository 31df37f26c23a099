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
  kReference
};  // every colliding (query, key), or the BERT-LSH authors' mirrored upper triangle
enum class Resample { kCall, kNever };    // new planes or rotations at every training step, or the same for ever
enum class ScoreScale { kNone, kSqrtD };  // of Reformer's scores: q·k, or q·k / √d

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
  int bands = 2;        // hyperplanes per hash function, 1 … 62
  int hashes = 1;       // hash functions; a pair that collides under several counts once
  int table_size = 64;  // buckets per hash function
  Fill fill = Fill::kZero;
  Pairs pairs = Pairs::kFull;
  bool center_keys = false;  // hash key − mean key
  // Reformer
  int rounds = 4;                     // each with rotations of its own
  std::array<int, 2> buckets{0, 0};   // even factors; {b, 0}: one; {0, 0}: auto, by the sequence's own length
  int chunk = 64;                     // tokens
  int look_back = 1, look_ahead = 0;  // chunks
  ScoreScale scale = ScoreScale::kNone;
  bool cross_bucket = true;       // whether a query sees other buckets' keys in its window
  bool wrap = true;               // whether a window goes on from one round into the next
  bool causal = false;            // whether later keys take no part
  bool count_pairs_once = false;  // whether a pair met in several rounds counts as one
  // both
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

// The min_length in force. "auto" is the largest of the tuned lengths: from there on hashing is slower in none of the
// directions measured. One length for training and inference, because it is part of what the model computes: a sequence
// that was hashed in training is hashed when the model is used.
int MinLength(const AttentionSpec& spec);
// The shortest sequence that is hashed: MinLength, for Reformer at least chunk + 1 (one chunk is the whole sequence).
// kNeverHash where none is.
int ShortestHashed(const AttentionSpec& spec);
bool UsesHash(const AttentionSpec& spec, int length);  // length ≥ ShortestHashed

// Whether lengths tuned for one spec hold for the other: they differ in seed, resample and lengths at most.
bool SameWork(const AttentionSpec& a, const AttentionSpec& b);

// What multiplies q·k: 1/√head_dim; 1 for Reformer without `scale`.
double ScaleOfScores(const AttentionSpec& spec, int head_dim);

// Reformer's buckets for a sequence of `length` tokens: {b, 1}, or two even factors whose product is their number.
// auto: the largest power of two ≤ 2 · length / chunk, at least 2, in two factors above 128.
std::array<int, 2> BucketFactors(const AttentionSpec& spec, int64_t length);
// Columns of a round's rotation matrix: half of each factor.
int RotationColumns(const AttentionSpec& spec, int64_t length);
// Throws where a window of Reformer would come round the circle of all rounds' chunks to where it began, and so count
// its own chunk's pairs twice.
void CheckWindow(const AttentionSpec& spec, int64_t length);

}  // namespace lshformer
