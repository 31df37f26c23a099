#include "base/attention_changes.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace lshformer {

Json NumberOrText(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? Json(number) : Json(text);
}

Json BucketsOf(const std::string& text) {
  if (text == "auto") return text;
  Json factors = Json::array();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    factors.push_back(NumberOrText(part));
    begin = end + 1;
  }
  return factors;
}

AttentionSpec ParseAttentionFlag(std::string_view value) {
  try {
    if (value.starts_with('{')) return ParseAttentionSpec(ParseJson(value, "--attention"), "--attention");
    const std::vector<std::string> types{Name(AttentionType::kDense), Name(AttentionType::kSimHash),
                                         Name(AttentionType::kReformer)};
    if (std::find(types.begin(), types.end(), value) == types.end())
      FailUsage("--attention: expected {}, {} or {}, got \"{}\"{}", types[0], types[1], types[2], Shown(value),
                Suggestion(value, types));
    return ParseAttentionSpec(Json(value), "--attention");
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

std::vector<std::pair<std::string, Json>> AttentionChanges::Keys() const {
  std::vector<std::pair<std::string, Json>> keys;
  const auto add = [&](const char* key, const auto& value) { keys.emplace_back(key, value ? Json(*value) : Json()); };
  add("pairs", pairs);  // first: it says which of the others have a meaning
  keys.emplace_back("bands", bands ? NumberOrText(*bands) : Json());
  add("hashes", hashes);
  add("table_size", table_size);
  add("fill", fill);
  add("window", window);
  add("global", global);
  add("resample", resample);
  add("center_keys", center_keys);
  keys.emplace_back("min_length", min_length ? NumberOrText(*min_length) : Json());
  add("rounds", rounds);
  keys.emplace_back("buckets", buckets ? BucketsOf(*buckets) : Json());
  add("chunk", chunk);
  add("look_back", look_back);
  add("look_ahead", look_ahead);
  add("scale", scale);
  add("cross_bucket", cross_bucket);
  add("wrap", wrap);
  add("causal", causal);
  add("count_pairs_once", count_pairs_once);
  return keys;
}

namespace {

// `spec` with one key changed; nothing where its type has no such key.
std::optional<AttentionSpec> WithKey(const AttentionSpec& spec, const std::string& key, const Json& value) {
  Json json = ToJson(spec);
  if (!json.contains(key)) return std::nullopt;
  if (key == "pairs" && (value == "sorted") != (spec.pairs == Pairs::kSorted)) {
    // What suits one is no choice for the other: the new pairs begin with their own defaults.
    for (const char* other : {"bands", "table_size", "chunk", "look_back", "look_ahead"}) json.erase(other);
  }
  json[key] = value;
  if (key == "pairs" || key == "bands") DropKeysWithoutMeaning(json);
  try {
    return ParseAttentionSpec(json, "--lsh_" + key);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

// Why a key could be laid over no spec.
[[noreturn]] void RefuseKey(const std::vector<AttentionSpec>& specs, const std::string& key, const Json& value) {
  if (!specs.empty() && specs.front().type == AttentionType::kSimHash) {
    Json json = ToJson(specs.front());
    json[key] = value;
    try {
      ParseAttentionSpec(json, "--lsh_" + key);
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
  }
  FailUsage("--lsh_{}: has no meaning for {} attention", key, specs.empty() ? "no" : Name(specs.front().type));
}

}  // namespace

std::string AttentionChanges::FirstThatChangesWork() const {
  for (const auto& [key, value] : Keys()) {
    if (!value.is_null() && key != "min_length" && key != "resample") return key;
  }
  return "";
}

namespace {

// The name of a type that layers have already keeps their options and seed; of other layers, and where an object is
// given, that is all there is, but for the seed of the config where the object has none.
void ReplaceAttention(const std::string& flag, std::vector<AttentionSpec>& specs) {
  AttentionSpec wanted = ParseAttentionFlag(flag);
  const auto has_type = [&](const AttentionSpec& spec) { return spec.type == wanted.type; };
  if (flag.starts_with('{')) {
    const bool seeded = ParseJson(flag, "--attention").contains("seed");
    const auto old = std::find_if(specs.begin(), specs.end(), has_type);
    if (!seeded && old != specs.end()) wanted.seed = old->seed;
  } else if (std::any_of(specs.begin(), specs.end(), has_type)) {
    for (AttentionSpec& spec : specs)
      if (!has_type(spec)) spec = wanted;
    return;
  }
  specs.assign(1, wanted);
}

}  // namespace

void AttentionChanges::Apply(std::vector<AttentionSpec>& specs) const {
  if (wrap.value_or(false) && !cross_bucket.value_or(true))
    FailUsage("--lsh_wrap: has no meaning beside --lsh_cross_bucket false, where windows end with their round");
  if (!attention.empty()) ReplaceAttention(attention, specs);
  const std::vector<AttentionSpec> before = specs;
  for (const auto& [key, value] : Keys()) {
    if (value.is_null()) continue;
    // Layers may differ: a key changes those whose type has it.
    bool used = false;
    for (AttentionSpec& spec : specs) {
      const std::optional<AttentionSpec> changed = WithKey(spec, key, value);
      used |= changed.has_value();
      spec = changed.value_or(spec);
    }
    if (!used) RefuseKey(specs, key, value);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (SameWork(specs[i], before[i])) continue;
    specs[i].tuned.reset();
    if (specs[i].min_length != kAutoLength) continue;
    if (min_length)
      FailUsage(
          "--lsh_min_length: auto is what tune measured, and other --lsh_ flags change what it measured; give a "
          "number, or run tune with those flags");
    FailUsage(
        "--lsh_{}: the model's \"min_length\" is \"auto\", which tune measured without this flag; add --lsh_min_length "
        "N, or run tune with it",
        FirstThatChangesWork());
  }
}

}  // namespace lshformer
