#include "base/attention_spec.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace lshformer {
namespace {

// Buckets are int32 and a kernel's table has one entry a bucket; planes are [heads, hashes, bands, d].
constexpr int64_t kMaxTableSize = int64_t{1} << 24, kMaxHashes = 1024;
constexpr int64_t kMaxBands = 62;          // sign patterns fit an int64
constexpr int64_t kMaxSortedBands = 30;    // places in the order of sign patterns fit an int32
constexpr int64_t kTokensOfABucket = 128;  // at most, of bands auto where vectors fall evenly: two tiles of rows
constexpr int64_t kMaxLength = INT32_MAX;
constexpr int64_t kMaxRounds = 1024, kMaxChunk = int64_t{1} << 20, kMaxLook = int64_t{1} << 20;
// A factor has half as many rotations, each of head_dim floats a head and round; two factors make kMaxTableSize.
constexpr int64_t kMaxFactor = 4096;
constexpr int64_t kMostUnsplitBuckets = 128;  // more take two factors: √b rotations instead of b

// JSON names of each enumeration, in the order of its values.
constexpr std::array<const char*, 3> kTypes{"dense", "simhash", "reformer"};
constexpr std::array<const char*, 3> kFills{"zero", "mean", "none"};
constexpr std::array<const char*, 3> kPairs{"full", "reference", "sorted"};
constexpr std::array<const char*, 2> kResamples{"call", "never"};
constexpr std::array<const char*, 2> kScales{"none", "sqrt_d"};

template <class Enum, size_t n>
Enum ParseName(const std::array<const char*, n>& names, const Json& object, const char* key, std::string_view where) {
  const std::string name = GetString(object, key, where);
  for (size_t i = 0; i < n; ++i)
    if (name == names[i]) return static_cast<Enum>(i);
  std::string expected;
  for (size_t i = 0; i < n; ++i) expected += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 < n ? ", " : " or ", names[i]);
  Fail("{}: \"{}\": expected {}, got \"{}\"", where, key, expected, Shown(name));
}

template <size_t n>
Json NameOf(const std::array<const char*, n>& names, auto value) {
  return names[static_cast<size_t>(value)];
}

const std::vector<std::string>& KeysOf(AttentionType type) {
  static const std::vector<std::string> dense{"type", "seed"};
  static const std::vector<std::string> simhash{
      "type",       "bands",  "hashes", "table_size", "fill",        "pairs",      "chunk",         "look_back",
      "look_ahead", "window", "global", "resample",   "center_keys", "min_length", "tuned_lengths", "seed"};
  static const std::vector<std::string> reformer{
      "type", "rounds", "buckets",          "chunk",  "look_back", "look_ahead", "scale",      "cross_bucket",
      "wrap", "causal", "count_pairs_once", "window", "global",    "resample",   "min_length", "tuned_lengths",
      "seed"};
  return type == AttentionType::kDense ? dense : type == AttentionType::kSimHash ? simhash : reformer;
}

// Why a key of SimHash says nothing beside the other keys of its object; "" where it does.
std::string WithoutMeaning(const Json& object, std::string_view key) {
  const auto is = [&](const char* name, const char* value) { return object.contains(name) && object[name] == value; };
  const bool sorted = is("pairs", "sorted");
  if (key == "table_size" && (sorted || is("bands", "auto")))
    return fmt::format("it is 2^bands with {}", sorted ? "\"pairs\" \"sorted\"" : "\"bands\" \"auto\"");
  if ((key == "chunk" || key == "look_back" || key == "look_ahead") && !sorted)
    return "only \"pairs\" \"sorted\" has chunks";
  return "";
}

uint64_t GetSeed(const Json& object, std::string_view where) {
  const Json& seed = object.at("seed");
  const bool negative = seed.is_number_integer() && !seed.is_number_unsigned() && seed.get<int64_t>() < 0;
  if (!seed.is_number_integer() || negative)
    Fail("{}: \"seed\": expected 0 to {}, got {}", where, UINT64_MAX, ShownValue(seed));
  return seed.get<uint64_t>();
}

void RefuseUnknownKeys(const Json& object, AttentionType type, std::string_view where) {
  const std::vector<std::string>& keys = KeysOf(type);
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      const std::string reason = type == AttentionType::kSimHash ? WithoutMeaning(object, key) : "";
      if (!reason.empty()) Fail("{}: \"{}\" has no meaning here: {}", where, key, reason);
      continue;
    }
    for (const AttentionType other : {AttentionType::kSimHash, AttentionType::kReformer}) {
      const std::vector<std::string>& others = KeysOf(other);
      if (std::find(others.begin(), others.end(), key) != others.end())
        Fail("{}: \"{}\" has no meaning for type \"{}\"", where, key, Name(type));
    }
    Fail("{}: unknown key \"{}\"{}", where, Shown(key), Suggestion(key, keys));
  }
}

// 0: auto.
int GetBands(const Json& object, bool sorted, std::string_view where) {
  if (object.at("bands") == "auto") return 0;
  const int64_t most = sorted ? kMaxSortedBands : kMaxBands;
  if (!object.at("bands").is_number_integer())
    Fail("{}: \"bands\": expected 1 to {} or \"auto\", got {}", where, most, ShownValue(object.at("bands")));
  return static_cast<int>(GetInt(object, "bands", where, 1, most));
}

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

std::array<int, 2> GetBuckets(const Json& object, std::string_view where) {
  const Json& value = object.at("buckets");
  if (value.is_string() && value.get<std::string>() == "auto") return {0, 0};
  if (!value.is_array()) return {CheckedFactor(value, where), 0};
  if (value.empty() || value.size() > 2)
    Fail("{}: \"buckets\": expected one or two factors, got {}", where, ShownValue(value));
  return {CheckedFactor(value[0], where), value.size() == 2 ? CheckedFactor(value[1], where) : 0};
}

Json BucketsJson(const std::array<int, 2>& buckets) {
  if (buckets[0] == 0) return "auto";
  if (buckets[1] == 0) return buckets[0];
  return Json::array({buckets[0], buckets[1]});
}

int GetMinLength(const Json& object, std::string_view where) {
  const Json& value = object.at("min_length");
  if (value.is_string() && value.get<std::string>() == "auto") return kAutoLength;
  return static_cast<int>(GetInt(object, "min_length", where, 0, kMaxLength));
}

TunedLengths GetTunedLengths(const Json& object, std::string_view where) {
  const Json& value = object.at("tuned_lengths");
  if (!value.is_object()) Fail("{}: \"tuned_lengths\": expected an object, got {}", where, ShownValue(value));
  const std::string inside = fmt::format("{}: \"tuned_lengths\"", where);
  TunedLengths tuned;
  for (const auto& [key, item] : value.items()) {
    if (key == "machine") {
      tuned.machine = GetString(value, key, inside);
      continue;
    }
    if (key != "forward" && key != "forward_backward")
      Fail("{}: unknown key \"{}\"{}", inside, Shown(key), Suggestion(key, {"forward", "forward_backward", "machine"}));
    const bool never = item.is_string() && item.get<std::string>() == "never";
    (key == "forward" ? tuned.forward : tuned.forward_backward) =
        never ? kNeverHash : static_cast<int>(GetInt(value, key, inside, 0, kMaxLength));
  }
  if (!tuned.forward && !tuned.forward_backward)
    Fail("{}: expected \"forward\" or \"forward_backward\", got neither", inside);
  return tuned;
}

void LengthsToJson(const AttentionSpec& spec, Json& json) {
  json["min_length"] = spec.min_length == kAutoLength ? Json("auto") : Json(spec.min_length);
  if (!spec.tuned) return;
  Json& tuned = json["tuned_lengths"] = Json::object();
  const auto add = [&tuned](const char* key, const std::optional<int>& length) {
    if (length) tuned[key] = *length == kNeverHash ? Json("never") : Json(*length);
  };
  add("forward", spec.tuned->forward);
  add("forward_backward", spec.tuned->forward_backward);
  if (!spec.tuned->machine.empty()) tuned["machine"] = spec.tuned->machine;
}

// "none", or "cls", "sep" or both with a comma.
void ParseGlobal(const Json& value, std::string_view where, AttentionSpec& spec) {
  const std::string text = GetString(value, "global", where);
  spec.global_first = text == "cls" || text == "cls,sep" || text == "sep,cls";
  spec.global_last = text == "sep" || text == "cls,sep" || text == "sep,cls";
  if (text != "none" && !spec.global_first && !spec.global_last)
    Fail("{}: \"global\": expected \"none\", \"cls\", \"sep\" or \"cls,sep\", got \"{}\"", where, Shown(text));
}

const char* GlobalName(const AttentionSpec& spec) {
  if (spec.global_first) return spec.global_last ? "cls,sep" : "cls";
  return spec.global_last ? "sep" : "none";
}

// Keys of pairs that are always seen, which all hashed types have.
void ParseAlwaysKeys(const Json& value, std::string_view where, AttentionSpec& spec) {
  if (value.contains("window")) spec.window = static_cast<int>(GetInt(value, "window", where, 0, kMaxLength));
  if (value.contains("global")) ParseGlobal(value, where, spec);
  const bool any = spec.window > 0 || spec.global_first || spec.global_last;
  if (any && spec.pairs == Pairs::kReference)
    Fail("{}: \"{}\": \"pairs\" \"reference\" takes its pairs from the hash alone, as the authors' code does", where,
         spec.window > 0 ? "window" : "global");
}

void AlwaysToJson(const AttentionSpec& spec, Json& json) {
  json["window"] = spec.window;
  json["global"] = GlobalName(spec);
}

// Keys of chunks, which Reformer and sorted pairs have.
void ParseChunkKeys(const Json& value, std::string_view where, AttentionSpec& spec) {
  const auto integer = [&](const char* key, int& target, int64_t low, int64_t high) {
    if (value.contains(key)) target = static_cast<int>(GetInt(value, key, where, low, high));
  };
  integer("chunk", spec.chunk, 1, kMaxChunk);
  integer("look_back", spec.look_back, 0, kMaxLook);
  integer("look_ahead", spec.look_ahead, 0, kMaxLook);
}

void ChunksToJson(const AttentionSpec& spec, Json& json) {
  json["chunk"] = spec.chunk;
  json["look_back"] = spec.look_back;
  json["look_ahead"] = spec.look_ahead;
}

void ParseSimHashKeys(const Json& value, std::string_view where, AttentionSpec& spec) {
  const auto integer = [&](const char* key, int& target, int64_t low, int64_t high) {
    if (value.contains(key)) target = static_cast<int>(GetInt(value, key, where, low, high));
  };
  if (value.contains("pairs")) spec.pairs = ParseName<Pairs>(kPairs, value, "pairs", where);
  const bool sorted = spec.pairs == Pairs::kSorted;
  if (sorted) {
    spec.bands = 0;
    spec.look_ahead = kSortedLookAhead;
    ParseChunkKeys(value, where, spec);
  }
  if (value.contains("bands")) spec.bands = GetBands(value, sorted, where);
  if (spec.bands == 0 && spec.pairs == Pairs::kReference)
    Fail("{}: \"bands\": \"auto\" is not what the authors' \"pairs\" \"reference\" does, expected a number", where);
  integer("hashes", spec.hashes, 1, kMaxHashes);
  integer("table_size", spec.table_size, 1, kMaxTableSize);
  if (value.contains("fill")) spec.fill = ParseName<Fill>(kFills, value, "fill", where);
  if (value.contains("center_keys")) spec.center_keys = GetBool(value, "center_keys", where);
}

void SimHashToJson(const AttentionSpec& spec, Json& json) {
  json["bands"] = spec.bands == 0 ? Json("auto") : Json(spec.bands);
  json["hashes"] = spec.hashes;
  if (!SignPatternsAreBuckets(spec)) json["table_size"] = spec.table_size;
  json["fill"] = NameOf(kFills, spec.fill);
  json["pairs"] = NameOf(kPairs, spec.pairs);
  if (spec.pairs == Pairs::kSorted) ChunksToJson(spec, json);
  AlwaysToJson(spec, json);
  json["resample"] = NameOf(kResamples, spec.resample);
  json["center_keys"] = spec.center_keys;
  LengthsToJson(spec, json);
}

void ParseReformerKeys(const Json& value, std::string_view where, AttentionSpec& spec) {
  const auto integer = [&](const char* key, int& target, int64_t low, int64_t high) {
    if (value.contains(key)) target = static_cast<int>(GetInt(value, key, where, low, high));
  };
  const auto flag = [&](const char* key, bool& target) {
    if (value.contains(key)) target = GetBool(value, key, where);
  };
  integer("rounds", spec.rounds, 1, kMaxRounds);
  ParseChunkKeys(value, where, spec);
  if (value.contains("buckets")) spec.buckets = GetBuckets(value, where);
  if (value.contains("scale")) spec.scale = ParseName<ScoreScale>(kScales, value, "scale", where);
  flag("cross_bucket", spec.cross_bucket);
  flag("wrap", spec.wrap);
  flag("causal", spec.causal);
  flag("count_pairs_once", spec.count_pairs_once);
}

void ReformerToJson(const AttentionSpec& spec, Json& json) {
  json["rounds"] = spec.rounds;
  json["buckets"] = BucketsJson(spec.buckets);
  ChunksToJson(spec, json);
  json["scale"] = NameOf(kScales, spec.scale);
  json["cross_bucket"] = spec.cross_bucket;
  json["wrap"] = spec.wrap;
  json["causal"] = spec.causal;
  json["count_pairs_once"] = spec.count_pairs_once;
  AlwaysToJson(spec, json);
  json["resample"] = NameOf(kResamples, spec.resample);
  LengthsToJson(spec, json);
}

}  // namespace

AttentionSpec ParseAttentionSpec(const Json& value, std::string_view where) {
  if (value.is_string()) return ParseAttentionSpec(Json{{"type", value}}, where);
  if (!value.is_object()) Fail("{}: expected a type name or an object, got {}", where, ShownValue(value));
  AttentionSpec spec;
  spec.type = ParseName<AttentionType>(kTypes, value, "type", where);
  RefuseUnknownKeys(value, spec.type, where);
  if (value.contains("min_length")) spec.min_length = GetMinLength(value, where);
  if (value.contains("tuned_lengths")) spec.tuned = GetTunedLengths(value, where);
  if (spec.min_length == kAutoLength && !spec.tuned)
    Fail(
        "{}: \"min_length\" is \"auto\", but nothing was measured for this attention; run \"lshformer tune "
        "--model_name_or_path DIR\", or give a number",
        where);
  if (value.contains("resample")) spec.resample = ParseName<Resample>(kResamples, value, "resample", where);
  if (value.contains("seed")) spec.seed = GetSeed(value, where);
  if (spec.type == AttentionType::kSimHash) ParseSimHashKeys(value, where, spec);
  if (spec.type == AttentionType::kReformer) ParseReformerKeys(value, where, spec);
  ParseAlwaysKeys(value, where, spec);
  return spec;
}

Json ToJson(const AttentionSpec& spec) {
  Json json{{"type", Name(spec.type)}};
  if (spec.type == AttentionType::kSimHash) SimHashToJson(spec, json);
  if (spec.type == AttentionType::kReformer) ReformerToJson(spec, json);
  json["seed"] = spec.seed;
  return json;
}

const char* Name(AttentionType type) { return kTypes[static_cast<size_t>(type)]; }

int MinLength(const AttentionSpec& spec) {
  if (spec.min_length != kAutoLength) return spec.min_length;
  // A spec of our own making that asks for what was not measured: exact attention is always right.
  if (!spec.tuned) return kNeverHash;
  return std::max(spec.tuned->forward.value_or(0), spec.tuned->forward_backward.value_or(0));
}

int ShortestHashed(const AttentionSpec& spec) {
  if (spec.type == AttentionType::kDense) return kNeverHash;
  int64_t shortest = MinLength(spec);
  if (spec.type == AttentionType::kReformer) {
    shortest = std::max<int64_t>(shortest, spec.chunk + 1);
  } else if (spec.pairs == Pairs::kSorted) {
    shortest = std::max(shortest, int64_t{spec.chunk} * (1 + std::min(spec.look_back, spec.look_ahead)) + 1);
  }
  return static_cast<int>(std::min<int64_t>(shortest, kNeverHash));
}

bool UsesHash(const AttentionSpec& spec, int length) {
  const int shortest = ShortestHashed(spec);
  return shortest != kNeverHash && length >= shortest;
}

bool SameWork(const AttentionSpec& a, const AttentionSpec& b) {
  AttentionSpec alike = a;
  alike.seed = b.seed;
  alike.resample = b.resample;
  alike.min_length = b.min_length;
  alike.tuned = b.tuned;
  return alike == b;
}

void DropKeysWithoutMeaning(Json& object) {
  for (const char* key : {"table_size", "chunk", "look_back", "look_ahead"}) {
    if (!WithoutMeaning(object, key).empty()) object.erase(key);
  }
}

bool SignPatternsAreBuckets(const AttentionSpec& spec) { return spec.bands == 0 || spec.pairs == Pairs::kSorted; }

int BandsOf(const AttentionSpec& spec, int64_t length) {
  if (spec.bands != 0) return spec.bands;
  const bool sorted = spec.pairs == Pairs::kSorted;
  const int64_t places = sorted ? 2 * length : length, tokens = sorted ? spec.chunk : kTokensOfABucket;
  int bands = 1;
  while (bands < kMaxSortedBands && (tokens << bands) < places) ++bands;
  return bands;
}

int64_t TableSizeOf(const AttentionSpec& spec, int64_t length) {
  return SignPatternsAreBuckets(spec) ? int64_t{1} << BandsOf(spec, length) : spec.table_size;
}

double ScaleOfScores(const AttentionSpec& spec, int head_dim) {
  if (spec.type == AttentionType::kReformer && spec.scale == ScoreScale::kNone) return 1;
  return 1 / std::sqrt(static_cast<double>(head_dim));
}

std::array<int, 2> BucketFactors(const AttentionSpec& spec, int64_t length) {
  if (spec.buckets[0] != 0) return {spec.buckets[0], std::max(1, spec.buckets[1])};
  int64_t buckets = 2;
  while (2 * buckets <= std::min(2 * length / spec.chunk, kMaxTableSize)) buckets *= 2;
  if (buckets <= kMostUnsplitBuckets) return {static_cast<int>(buckets), 1};
  int first = 2;
  while (int64_t{4} * first * first <= buckets) first *= 2;
  return {first, static_cast<int>(buckets / first)};
}

int RotationColumns(const AttentionSpec& spec, int64_t length) {
  const std::array<int, 2> factors = BucketFactors(spec, length);
  return factors[0] / 2 + factors[1] / 2;
}

void CheckWindow(const AttentionSpec& spec, int64_t length) {
  if (!spec.wrap || !spec.cross_bucket || spec.count_pairs_once || !UsesHash(spec, static_cast<int>(length))) return;
  const int64_t chunks = (length + spec.chunk - 1) / spec.chunk, circle = chunks * spec.rounds;
  const bool back = spec.look_back >= circle;
  if (!back && spec.look_ahead < circle) return;
  Fail(
      "attention: \"{}\" {} reaches around all {} chunks of a sequence of {} tokens ({} rounds, chunk {}): pairs would "
      "count twice; expected at most {}, or \"count_pairs_once\", or \"wrap\": false, or a \"min_length\" above {}",
      back ? "look_back" : "look_ahead", back ? spec.look_back : spec.look_ahead, circle, length, spec.rounds,
      spec.chunk, circle - 1, length);
}

}  // namespace lshformer
