#include "attention/reformer.h"

#include <algorithm>

#include "attention/spec_options.h"

namespace lshformer {
namespace {

constexpr int64_t kMaxRounds = 1024;
// A factor has half as many rotations, each of head_dim floats a head and round; two factors make kMaxTableSize.
constexpr int64_t kMaxFactor = 4096;
constexpr int64_t kMostUnsplitBuckets = 128;  // more take two factors: √b rotations instead of b

int CheckedFactor(const Json& value, std::string_view where) {
  const bool integer = value.is_number_integer();
  if (!integer || value.get<int64_t>() < 2 || value.get<int64_t>() > kMaxFactor)
    Fail("{}: \"buckets\": expected \"auto\", an even number from 2 to {} or two of them, got {}", where, kMaxFactor,
         ShownValue(value));
  const auto factor = value.get<int>();
  if (factor % 2 != 0)
    Fail("{}: \"buckets\": expected an even number (a bucket is a rotated direction or its opposite), got {}", where,
         factor);
  return factor;
}

void ReadBuckets(const Json& object, std::string_view where, ReformerAttention& into) {
  const Json& value = object.at("buckets");
  if (value.is_string() && value.get<std::string>() == "auto") {
    into.buckets = {0, 0};
    return;
  }
  if (!value.is_array()) {
    into.buckets = {CheckedFactor(value, where), 0};
    return;
  }
  if (value.empty() || value.size() > 2)
    Fail("{}: \"buckets\": expected one or two factors, got {}", where, ShownValue(value));
  into.buckets = {CheckedFactor(value[0], where), value.size() == 2 ? CheckedFactor(value[1], where) : 0};
}

Json WriteBuckets(const ReformerAttention& from) {
  if (from.buckets[0] == 0) return "auto";
  if (from.buckets[1] == 0) return from.buckets[0];
  return Json::array({from.buckets[0], from.buckets[1]});
}

AttentionOption BucketsOption() {
  Option<ReformerAttention> option =
      Custom<ReformerAttention>("buckets", "auto|N|N,M", ReadBuckets, WriteBuckets,
                                "even number of buckets, or two even factors; auto: by the length");
  option.from_text = NumbersOfText;
  return Own(std::move(option));
}

AttentionTable ReformerTable() {
  using R = ReformerAttention;
  return {{Own(Integer("rounds", &R::rounds, 1, kMaxRounds, "rounds of hashing, each with rotations of its own")),
           BucketsOption(),
           Own(Integer("chunk", &R::chunk, 1, kMaxChunk,
                       "tokens a chunk; a sequence of one chunk is exact (sorted simhash too)")),
           Own(Integer("look_back", &R::look_back, 0, kMaxLook, "chunks before its own that a query sees")),
           Own(Integer("look_ahead", &R::look_ahead, 0, kMaxLook,
                       "chunks after its own that a query sees (sorted simhash: 1)")),
           Own(Names("scale", &R::scale, {"none", "sqrt_d"}, "of the scores: none, or 1/√head_dim")),
           Own(Boolean("cross_bucket", &R::cross_bucket, "see other buckets' keys in the view")),
           Own(Boolean("wrap", &R::wrap, "views go on from one round into the next")),
           Own(Boolean("causal", &R::causal, "later keys take no part (default false)")),
           Own(Boolean("count_pairs_once", &R::count_pairs_once,
                       "a pair met in several rounds counts as one (default false)")),
           WindowOption(), GlobalOption(), ResampleOption(), MinLengthOption(), TunedLengthsOption(), SeedOption()},
          CheckMinLength,
          {.kind = R{}},
          "Reformer attention (changes the model's own; defaults of a new reformer)"};
}

}  // namespace

const AttentionTable& Options(const ReformerAttention&) {
  static const AttentionTable table = ReformerTable();
  return table;
}

int64_t ShortestSparse(const ReformerAttention& reformer) { return int64_t{reformer.chunk} + 1; }

int64_t ShortestToPlan(const ReformerAttention& reformer) {
  int64_t chunks = 2;
  if (reformer.wrap && reformer.cross_bucket && !reformer.count_pairs_once)
    chunks = std::max<int64_t>(chunks, std::max(reformer.look_back, reformer.look_ahead) / reformer.rounds + 1);
  return (chunks - 1) * reformer.chunk + 1;
}

double ScaleOfScores(const ReformerAttention& reformer, int head_dim) {
  return reformer.scale == ScoreScale::kNone ? 1 : RootScale(head_dim);
}

std::array<int, 2> BucketFactors(const ReformerAttention& reformer, int64_t length) {
  if (reformer.buckets[0] != 0) return {reformer.buckets[0], std::max(1, reformer.buckets[1])};
  int64_t buckets = 2;
  while (2 * buckets <= std::min(2 * length / reformer.chunk, kMaxTableSize)) buckets *= 2;
  if (buckets <= kMostUnsplitBuckets) return {static_cast<int>(buckets), 1};
  int first = 2;
  while (int64_t{4} * first * first <= buckets) first *= 2;
  return {first, static_cast<int>(buckets / first)};
}

int RotationColumns(const ReformerAttention& reformer, int64_t length) {
  const std::array<int, 2> factors = BucketFactors(reformer, length);
  return factors[0] / 2 + factors[1] / 2;
}

void CheckView(const ReformerAttention& reformer, int64_t length) {
  if (!reformer.wrap || !reformer.cross_bucket || reformer.count_pairs_once) return;
  const int64_t chunks = (length + reformer.chunk - 1) / reformer.chunk, circle = chunks * reformer.rounds;
  const bool back = reformer.look_back >= circle;
  if (!back && reformer.look_ahead < circle) return;
  Fail(
      "attention: \"{}\" {} reaches around all {} chunks of a sequence of {} tokens ({} rounds, chunk {}): pairs would "
      "count twice; expected at most {}, or \"count_pairs_once\", or \"wrap\": false, or a \"min_length\" above {}",
      back ? "look_back" : "look_ahead", back ? reformer.look_back : reformer.look_ahead, circle, length,
      reformer.rounds, reformer.chunk, circle - 1, length);
}

}  // namespace lshformer
