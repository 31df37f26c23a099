#include "base/attention_spec.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lshformer {
namespace {

// Buckets are int32 and a kernel's table has one entry a bucket; planes are [heads, hashes, bands, d].
constexpr int64_t kMaxTableSize = int64_t{1} << 24, kMaxHashes = 1024;
constexpr int64_t kMaxBands = 62;  // sign patterns fit an int64
constexpr int64_t kMaxLength = INT32_MAX;

// JSON names of each enumeration, in the order of its values.
constexpr std::array<const char*, 2> kTypes{"dense", "simhash"};
constexpr std::array<const char*, 3> kFills{"zero", "mean", "none"};
constexpr std::array<const char*, 2> kPairs{"full", "reference"};
constexpr std::array<const char*, 2> kResamples{"call", "never"};

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
  static const std::vector<std::string> simhash{"type",  "bands",    "hashes",      "table_size", "fill",
                                                "pairs", "resample", "center_keys", "min_length", "seed"};
  return type == AttentionType::kDense ? dense : simhash;
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
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::vector<std::string>& hashed = KeysOf(AttentionType::kSimHash);
    if (std::find(hashed.begin(), hashed.end(), key) != hashed.end())
      Fail("{}: \"{}\" has no meaning for type \"{}\"", where, key, Name(type));
    Fail("{}: unknown key \"{}\"{}", where, Shown(key), Suggestion(key, keys));
  }
}

}  // namespace

AttentionSpec ParseAttentionSpec(const Json& value, std::string_view where) {
  if (value.is_string()) return ParseAttentionSpec(Json{{"type", value}}, where);
  if (!value.is_object()) Fail("{}: expected a type name or an object, got {}", where, ShownValue(value));
  AttentionSpec spec;
  spec.type = ParseName<AttentionType>(kTypes, value, "type", where);
  RefuseUnknownKeys(value, spec.type, where);
  const auto integer = [&](const char* key, int& target, int64_t low, int64_t high) {
    if (value.contains(key)) target = static_cast<int>(GetInt(value, key, where, low, high));
  };
  integer("bands", spec.bands, 1, kMaxBands);
  integer("hashes", spec.hashes, 1, kMaxHashes);
  integer("table_size", spec.table_size, 1, kMaxTableSize);
  integer("min_length", spec.min_length, 0, kMaxLength);
  if (value.contains("fill")) spec.fill = ParseName<Fill>(kFills, value, "fill", where);
  if (value.contains("pairs")) spec.pairs = ParseName<Pairs>(kPairs, value, "pairs", where);
  if (value.contains("resample")) spec.resample = ParseName<Resample>(kResamples, value, "resample", where);
  if (value.contains("center_keys")) spec.center_keys = GetBool(value, "center_keys", where);
  if (value.contains("seed")) spec.seed = GetSeed(value, where);
  return spec;
}

Json ToJson(const AttentionSpec& spec) {
  Json json{{"type", Name(spec.type)}};
  if (spec.type == AttentionType::kSimHash) {
    json["bands"] = spec.bands;
    json["hashes"] = spec.hashes;
    json["table_size"] = spec.table_size;
    json["fill"] = NameOf(kFills, spec.fill);
    json["pairs"] = NameOf(kPairs, spec.pairs);
    json["resample"] = NameOf(kResamples, spec.resample);
    json["center_keys"] = spec.center_keys;
    json["min_length"] = spec.min_length;
  }
  json["seed"] = spec.seed;
  return json;
}

const char* Name(AttentionType type) { return kTypes[static_cast<size_t>(type)]; }

bool UsesHash(const AttentionSpec& spec, int length) {
  return spec.type != AttentionType::kDense && length >= spec.min_length;
}

}  // namespace lshformer
