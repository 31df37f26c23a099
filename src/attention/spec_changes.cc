#include "attention/spec_changes.h"

#include <algorithm>
#include <optional>

#include "attention/clustered.h"
#include "base/error.h"
#include "base/option_table.h"

namespace lshformer {
namespace {

std::vector<LshKey> CollectLshKeys() {
  std::vector<LshKey> keys;
  for (const AttentionSpec& spec : AttentionKinds()) {
    for (const AttentionOption& option : OptionsOf(spec).options) {
      const auto same = [&](const LshKey& key) { return key.option->name == option.name; };
      if (!option.help.empty() && std::none_of(keys.begin(), keys.end(), same))
        keys.push_back({&OptionsOf(spec), &option});
    }
  }
  return keys;
}

// An Error of `f` as one of a flag.
template <class F>
auto AsUsage(const F& f) {
  try {
    return f();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.Spelled(kOptionMark));
  }
}

// A flag where an error's place stands.
std::string Named(const std::string& option) { return Marked(option); }

// `spec` with one key changed, what must hold between keys not looked at; nothing where its kind has no such key, or
// none that has a meaning now.
std::optional<AttentionSpec> WithKey(const AttentionSpec& spec, const std::string& key, const Json& value) {
  if (!spec.heads.empty()) {
    std::vector<AttentionSpec> heads;
    bool used = false;
    for (const AttentionSpec& head : spec.heads) {
      const std::optional<AttentionSpec> changed = WithKey(head, key, value);
      used |= changed.has_value();
      heads.push_back(changed.value_or(head));
    }
    return used ? std::optional(OfHeads(std::move(heads), Named("lsh_" + key))) : std::nullopt;
  }
  const Json json = ToJson(spec);
  if (!json.contains(key)) return std::nullopt;
  const std::string flag = Named("lsh_" + key);
  return AsUsage([&] { return ParseUnchecked(WithKeyChanged(json, key, value, flag), flag); });
}

// Which layers a change of attention is for: those that are not local, or all where none is anything else. A model's
// local layers are part of what it is.
std::vector<bool> LayersToChange(const std::vector<AttentionSpec>& specs) {
  const bool all = std::all_of(specs.begin(), specs.end(), Is<LocalAttention>);
  std::vector<bool> layers;
  for (const AttentionSpec& spec : specs) layers.push_back(all || !Is<LocalAttention>(spec));
  return layers;
}

// Why a key could be laid over no spec, of which the first that it is for is this one.
[[noreturn]] void RefuseKey(const AttentionSpec* spec, const std::string& key, const Json& value) {
  const auto may_be_without = [](const AttentionOption& option) { return option.without_meaning != nullptr; };
  if (spec != nullptr) {
    AttentionSpec first = *spec;
    first.heads.clear();  // where heads differ: what its clustered ones are
    const std::vector<AttentionOption>& options = OptionsOf(first).options;
    Json json = ToJson(first);
    json[key] = value;
    // Of a kind whose keys hang on one another the parser knows the reason.
    if (std::any_of(options.begin(), options.end(), may_be_without))
      AsUsage([&] { return ParseAttentionSpec(json, Named("lsh_" + key)); });
  }
  FailOption("lsh_" + key, "has no meaning for {} attention", spec == nullptr ? "no" : Name(*spec));
}

// The name of a kind that layers have already keeps their options and seed; of other layers, and where an object is
// given, that is all there is, but for the seed of the config and its stored directions where the object says nothing
// of them.
void ReplaceAttention(const std::string& flag, const std::vector<bool>& layers, std::vector<AttentionSpec>& specs) {
  AttentionSpec wanted = ParseAttentionFlag(flag);
  std::vector<AttentionSpec*> changed;
  for (size_t i = 0; i < specs.size(); ++i)
    if (layers[i]) changed.push_back(&specs[i]);
  const auto has_kind = [&](const AttentionSpec* spec) { return SameKind(*spec, wanted); };
  const auto old = std::find_if(changed.begin(), changed.end(), has_kind);
  const bool named = !flag.starts_with('{');
  const Json object = named ? Json::object() : ParseJson(flag, Named("attention"));
  if (!named && old != changed.end() && !object.contains("seed")) wanted.seed = (*old)->seed;
  const auto stores = [](const AttentionSpec* spec) { return StoresDirections(*spec); };
  if (Is<ClusteredAttention>(wanted) && !object.contains("directions") &&
      std::all_of(changed.begin(), changed.end(), stores) && !changed.empty())
    As<ClusteredAttention>(wanted).directions = Directions::kStored;
  if (changed.size() == specs.size() && !(named && old != changed.end())) {
    specs.assign(1, wanted);
    return;
  }
  for (AttentionSpec* spec : changed)
    if (!named || !has_kind(spec)) *spec = wanted;
}

}  // namespace

const std::vector<LshKey>& LshKeys() {
  static const std::vector<LshKey> keys = CollectLshKeys();
  return keys;
}

AttentionSpec ParseAttentionFlag(std::string_view value) {
  const std::string where = Named("attention");
  return AsUsage([&] {
    if (value.starts_with('{')) return ParseAttentionSpec(ParseJson(value, where), where);
    if (const std::string error = NameError(AttentionNames(), std::string(value)); !error.empty())
      FailOption("attention", "{}", error);
    return ParseAttentionSpec(Json(value), where);
  });
}

std::vector<std::pair<std::string, Json>> AttentionChanges::Keys() const {
  std::vector<std::pair<std::string, Json>> all;
  for (const bool decides : {true, false}) {
    for (const LshKey& key : LshKeys()) {
      if (key.option->decides != decides) continue;
      const auto given = keys.find(key.option->name);
      all.emplace_back(key.option->name, given == keys.end() ? Json() : given->second);
    }
  }
  return all;
}

Json AttentionChanges::Given(const std::string& key) const {
  if (const auto flag = keys.find(key); flag != keys.end()) return flag->second;
  if (!attention.starts_with('{')) return nullptr;
  const Json object = AsUsage([&] { return ParseJson(attention, Named("attention")); });
  return object.value(key, Json());
}

std::string AttentionChanges::FirstThatChangesWork() const {
  for (const auto& [key, value] : Keys()) {
    if (!value.is_null() && ChangesWork(key)) return key;
  }
  return "";
}

void AttentionChanges::Apply(std::vector<AttentionSpec>& specs) const {
  const auto given = [&](const char* key, bool value) {
    const auto found = keys.find(key);
    return found != keys.end() && found->second == value;
  };
  if (given("wrap", true) && given("cross_bucket", false))
    FailOption("lsh_wrap", "has no meaning beside {} false, where views end with their round",
               OptionName{"lsh_cross_bucket"});
  std::vector<bool> layers = LayersToChange(specs);
  if (!attention.empty()) ReplaceAttention(attention, layers, specs);
  layers.resize(specs.size(), true);  // one for all where there was none
  const std::vector<AttentionSpec> before = specs;
  std::string last;  // that changed something
  for (const auto& [key, value] : Keys()) {
    if (value.is_null()) continue;
    // Layers may differ: a key changes those whose kind has it.
    bool used = false;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!layers[i]) continue;
      const std::optional<AttentionSpec> changed = WithKey(specs[i], key, value);
      used |= changed.has_value();
      specs[i] = changed.value_or(specs[i]);
    }
    const auto first = static_cast<size_t>(std::find(layers.begin(), layers.end(), true) - layers.begin());
    if (!used) RefuseKey(specs.empty() ? nullptr : &specs[first], key, value);
    last = key;
  }
  for (size_t i = 0; i < specs.size() && !last.empty(); ++i) {
    if (specs[i] != before[i]) AsUsage([&] { return ParseAttentionSpec(ToJson(specs[i]), Named("lsh_" + last)); });
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (SameWork(specs[i], before[i])) continue;
    ForEachSpec(specs[i], [](AttentionSpec& spec) { spec.tuned.reset(); });
    if (specs[i].min_length != kAutoLength) continue;
    if (keys.contains("min_length"))
      FailOption("lsh_min_length",
                 "auto is what tune measured, and other {} flags change what it measured; give a number, or run tune "
                 "with those flags",
                 OptionName{"lsh_"});
    FailOption("lsh_" + FirstThatChangesWork(),
               "the model's \"min_length\" is \"auto\", which tune measured without this flag; add {} N, or run tune "
               "with it",
               OptionName{"lsh_min_length"});
  }
}

}  // namespace lshformer
