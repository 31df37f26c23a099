// Reformer attention: queries are the keys, hashed by random rotations, sorted, and met chunk by chunk. Semantics:
// docs/attention.md.
#pragma once
#include <array>
#include <cstdint>

namespace lshformer {

template <class Struct>
struct OptionTable;  // base/option_table.h
struct AttentionSpec;

enum class ScoreScale { kNone, kSqrtD };  // of the scores: q·k, or q·k / √d

struct ReformerAttention {
  static constexpr const char* kName = "reformer";
  static constexpr bool kSparse = true;
  static constexpr bool kSharesKeys = true;
  // The score of a query with its own key: it sees itself where it sees nothing else.
  static constexpr double kSelfScore = -1e5;
  static constexpr double kKeyNormEpsilon =
      1e-6;  // added to the mean of q², before the square root: k = q / √(Σ q² + d · ε)

  int rounds = 4;                     // each with rotations of its own
  std::array<int, 2> buckets{0, 0};   // even factors; {b, 0}: one; {0, 0}: auto, by the sequence's own length
  int chunk = 64;                     // tokens
  int look_back = 1, look_ahead = 0;  // chunks
  ScoreScale scale = ScoreScale::kNone;
  bool cross_bucket = true;       // whether a query sees other buckets' keys in its view
  bool wrap = true;               // whether a view goes on from one round into the next
  bool causal = false;            // whether later keys take no part
  bool count_pairs_once = false;  // whether a pair met in several rounds counts as one

  bool operator==(const ReformerAttention&) const = default;
};

const OptionTable<AttentionSpec>& Options(const ReformerAttention&);
int64_t ShortestSparse(const ReformerAttention& reformer);              // chunk + 1: one chunk is the whole sequence
int64_t ShortestToPlan(const ReformerAttention& reformer);              // CheckView throws below
double ScaleOfScores(const ReformerAttention& reformer, int head_dim);  // 1 without `scale`

// Buckets for a sequence of `length` tokens: {b, 1}, or two even factors whose product is their number. auto: the
// largest power of two ≤ 2 · length / chunk, at least 2, in two factors above 128.
std::array<int, 2> BucketFactors(const ReformerAttention& reformer, int64_t length);
// Columns of a round's rotation matrix: half of each factor.
int RotationColumns(const ReformerAttention& reformer, int64_t length);
// Of a sequence that is hashed: throws where a view would come round the circle of all rounds' chunks to where it
// began, and so count its own chunk's pairs twice.
void CheckView(const ReformerAttention& reformer, int64_t length);

}  // namespace lshformer
