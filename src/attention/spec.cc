#include "attention/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention/spec_options.h"
#include "base/error.h"

namespace lshformer {
namespace {

constexpr const char* kType = "type";

// What a spec's kind says of itself: f(kind), with a kind of any type.
template <class F>
auto OfKind(const AttentionSpec& spec, const F& f) {
  return std::visit(f, spec.kind);
}

// "none", or "cls", "sep" or both with a comma.
void ReadGlobal(const Json& object, std::string_view where, AttentionSpec& into) {
  const std::string text = GetString(object, "global", where);
  into.global_first = text == "cls" || text == "cls,sep" || text == "sep,cls";
  into.global_last = text == "sep" || text == "cls,sep" || text == "sep,cls";
  if (text != "none" && !into.global_first && !into.global_last)
    Fail("{}: \"global\": expected \"none\", \"cls\", \"sep\" or \"cls,sep\", got \"{}\"", where, Shown(text));
}

Json WriteGlobal(const AttentionSpec& from) {
  if (from.global_first) return from.global_last ? "cls,sep" : "cls";
  return from.global_last ? "sep" : "none";
}

void ReadMinLength(const Json& object, std::string_view where, AttentionSpec& into) {
  const bool by_tuning = object.at("min_length") == "auto";
  into.min_length = by_tuning ? kAutoLength : static_cast<int>(GetInt(object, "min_length", where, 0, kMaxLength));
}

Json WriteMinLength(const AttentionSpec& from) {
  return from.min_length == kAutoLength ? Json("auto") : Json(from.min_length);
}

void ReadTunedLengths(const Json& object, std::string_view where, AttentionSpec& into) {
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
        never ? kNeverSparse : static_cast<int>(GetInt(value, key, inside, 0, kMaxLength));
  }
  if (!tuned.forward && !tuned.forward_backward)
    Fail("{}: expected \"forward\" or \"forward_backward\", got neither", inside);
  into.tuned = tuned;
}

Json WriteTunedLengths(const AttentionSpec& from) {
  if (!from.tuned) return nullptr;
  Json tuned = Json::object();
  const auto add = [&tuned](const char* key, const std::optional<int>& length) {
    if (length) tuned[key] = *length == kNeverSparse ? Json("never") : Json(*length);
  };
  add("forward", from.tuned->forward);
  add("forward_backward", from.tuned->forward_backward);
  if (!from.tuned->machine.empty()) tuned["machine"] = from.tuned->machine;
  return tuned;
}

template <class... Kinds>
std::vector<AttentionSpec> DefaultsOf(const std::variant<Kinds...>&) {
  return {Options(Kinds{}).defaults...};
}

const AttentionSpec& SpecOfName(const Json& object, std::string_view where) {
  return AttentionKinds()[GetName(object, kType, where, AttentionNames())];
}

void RefuseUnknownKeys(const Json& object, const AttentionSpec& spec, std::string_view where) {
  const AttentionTable& table = OptionsOf(spec);
  for (const auto& [key, value] : object.items()) {
    if (key == kType || FindOption(table, key) != nullptr) continue;
    for (const AttentionSpec& other : AttentionKinds()) {
      if (FindOption(OptionsOf(other), key) != nullptr)
        Fail("{}: \"{}\" has no meaning for type \"{}\"", where, key, Name(spec));
    }
    std::vector<std::string> known = NamesOf(table);
    known.insert(known.begin(), kType);
    Fail("{}: unknown key \"{}\"{}", where, Shown(key), Suggestion(key, known));
  }
}

// The defaults of a kind beside the keys of `object` that decide over others.
Json DefaultsBeside(const Json& object, std::string_view where) {
  AttentionSpec spec = SpecOfName(object, where);
  for (const AttentionOption& option : OptionsOf(spec).options)
    if (option.decides && object.contains(option.name)) option.read(object, where, spec);
  return ToJson(spec);
}

}  // namespace

AttentionOption WindowOption() {
  return Integer("window", &AttentionSpec::window, 0, kMaxLength,
                 "neighbours on each side that every query sees (reformer too); local: all that it sees");
}

AttentionOption GlobalOption() {
  AttentionOption option = Custom<AttentionSpec>(
      "global", "cls,sep|none", ReadGlobal, WriteGlobal,
      "tokens that all see and that see all, the first and the last of a sequence: cls, sep, cls,sep or none");
  option.from_text = [](const std::string& text) { return Json(text); };
  return option;
}

AttentionOption ResampleOption() {
  return Names("resample", &AttentionSpec::resample, {"call", "never"},
               "new hyperplanes or rotations at every training step, or the same for ever");
}

AttentionOption MinLengthOption() {
  return Custom<AttentionSpec>("min_length", "auto|N", ReadMinLength, WriteMinLength,
                               "shorter sequences are exact; 0: no such bound; auto: what tune measured");
}

AttentionOption TunedLengthsOption() {
  return Custom<AttentionSpec>("tuned_lengths", "", ReadTunedLengths, WriteTunedLengths, "");
}

AttentionOption SeedOption() { return Unsigned("seed", &AttentionSpec::seed, ""); }

void CheckMinLength(const AttentionSpec& spec, std::string_view where) {
  if (spec.min_length == kAutoLength && !spec.tuned)
    Fail(
        "{}: \"min_length\" is \"auto\", but nothing was measured for this attention; run \"lshformer tune {} "
        "DIR\", or give a number",
        where, OptionName{"model_name_or_path"});
}

Json NumbersOfText(const std::string& text) {
  if (text == "auto") return text;
  Json numbers = Json::array();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(NumberOrText(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return numbers;
}

double RootScale(int head_dim) { return 1 / std::sqrt(static_cast<double>(head_dim)); }

const char* Name(const AttentionSpec& spec) {
  return OfKind(spec, [](const auto& kind) { return kind.kName; });
}

std::string ShortName(const AttentionSpec& spec) {
  if (Is<DenseAttention>(spec)) return "exact";
  if (Is<LocalAttention>(spec)) return fmt::format("{}, window {}", Name(spec), spec.window);
  if (!Is<ClusteredAttention>(spec)) return Name(spec);
  const auto& clustered = As<ClusteredAttention>(spec);
  const std::string sizes = clustered.cluster.empty() ? "auto" : fmt::format("{}", fmt::join(clustered.cluster, "/"));
  std::string name = fmt::format("{} × {}", sizes, fmt::join(clustered.open, "/"));
  if (clustered.threshold) name += fmt::format(", threshold {:.3g}", *clustered.threshold);
  if (clustered.bundle > 1) name += fmt::format(", bundles of {}", clustered.bundle);
  const int usual = Options(clustered).defaults.window;
  return spec.window == usual ? name : fmt::format("{}, window {}", name, spec.window);
}

bool IsSparse(const AttentionSpec& spec) {
  return OfKind(spec, [](const auto& kind) { return kind.kSparse; });
}

bool SharesKeys(const AttentionSpec& spec) {
  return OfKind(spec, [](const auto& kind) { return kind.kSharesKeys; });
}

double ScaleOfScores(const AttentionSpec& spec, int head_dim) {
  return OfKind(spec, [=](const auto& kind) { return ScaleOfScores(kind, head_dim); });
}

const AttentionTable& OptionsOf(const AttentionSpec& spec) {
  return *OfKind(spec, [](const auto& kind) { return &Options(kind); });
}

const std::vector<AttentionSpec>& AttentionKinds() {
  static const std::vector<AttentionSpec> kinds = DefaultsOf(decltype(AttentionSpec::kind){});
  return kinds;
}

std::vector<std::string> AttentionNames() {
  std::vector<std::string> names;
  for (const AttentionSpec& spec : AttentionKinds()) names.push_back(Name(spec));
  return names;
}

AttentionSpec OfHeads(std::vector<AttentionSpec> heads, std::string_view where) {
  if (heads.empty()) Fail("{}: the list is empty", where);
  const auto same = [&](const AttentionSpec& head) { return head == heads.front(); };
  const auto clustered = std::find_if(heads.begin(), heads.end(), Is<ClusteredAttention>);
  const AttentionSpec first = clustered == heads.end() ? heads.front() : *clustered;
  if (first.heads.empty() && std::all_of(heads.begin(), heads.end(), same)) return first;
  for (const AttentionSpec& head : heads) {
    if (!head.heads.empty()) Fail("{}: expected an object for each head, got a list", where);
    if (Is<DenseAttention>(head)) continue;
    if (!Is<ClusteredAttention>(head))
      Fail("{}: heads that differ are clustered or dense, got \"{}\"", where, Name(head));
    if (head.seed != first.seed || As<ClusteredAttention>(head).directions != As<ClusteredAttention>(first).directions)
      Fail("{}: heads of a layer have one \"seed\" and one source of \"directions\"", where);
  }
  AttentionSpec layer = first;
  layer.heads = std::move(heads);
  return layer;
}

AttentionSpec ParseUnchecked(const Json& object, std::string_view where) {
  AttentionSpec spec = SpecOfName(object, where);
  RefuseUnknownKeys(object, spec, where);
  ReadUnchecked(OptionsOf(spec), object, where, spec);
  return spec;
}

AttentionSpec ParseAttentionSpec(const Json& value, std::string_view where) {
  if (value.is_array() && !value.empty()) {
    std::vector<AttentionSpec> heads;
    for (const Json& head : value) {
      if (head.is_array()) Fail("{}: expected an object for each head, got a list", where);
      heads.push_back(ParseAttentionSpec(head, fmt::format("{}[{}]", where, heads.size())));
    }
    return OfHeads(std::move(heads), where);
  }
  if (value.is_string()) return ParseAttentionSpec(Json{{kType, value}}, where);
  if (!value.is_object()) Fail("{}: expected a type name or an object, got {}", where, ShownValue(value));
  const AttentionSpec spec = ParseUnchecked(value, where);
  if (const auto& check = OptionsOf(spec).check) check(spec, where);
  return spec;
}

Json ToJson(const AttentionSpec& spec) {
  if (!spec.heads.empty()) {
    Json heads = Json::array();
    for (const AttentionSpec& head : spec.heads) heads.push_back(ToJson(head));
    return heads;
  }
  Json json{{kType, Name(spec)}};
  WriteOptions(OptionsOf(spec), spec, json);
  return json;
}

std::vector<AttentionSpec> ParseAttentionList(const Json& value, std::string_view where) {
  if (!value.is_array()) return {ParseAttentionSpec(value, where)};
  if (value.empty()) Fail("{}: the list is empty", where);
  std::vector<AttentionSpec> layers;
  for (const Json& layer : value)
    layers.push_back(ParseAttentionSpec(layer, fmt::format("{}[{}]", where, layers.size())));
  return layers;
}

Json ToJson(const std::vector<AttentionSpec>& layers) {
  if (layers.size() == 1 && layers[0].heads.empty()) return ToJson(layers[0]);
  Json list = Json::array();
  for (const AttentionSpec& layer : layers) list.push_back(ToJson(layer));
  return list;
}

Json WithKeyChanged(const Json& object, const std::string& key, const Json& value, std::string_view where) {
  Json changed = object;
  changed[key] = value;
  const Json before = DefaultsBeside(object, where), after = DefaultsBeside(changed, where);
  for (const auto& [other, old_value] : object.items()) {
    if (other != key && before.value(other, Json()) != after.value(other, Json())) changed.erase(other);
  }
  AttentionSpec spec = SpecOfName(changed, where);
  ForEachInReadingOrder(OptionsOf(spec), [&](const AttentionOption& option) {
    if (!changed.contains(option.name)) return;
    if (option.without_meaning && !option.without_meaning(spec).empty()) {
      changed.erase(option.name);
    } else {
      option.read(changed, where, spec);
    }
  });
  return changed;
}

int MinLength(const AttentionSpec& spec) {
  if (spec.min_length != kAutoLength) return spec.min_length;
  // A spec of our own making that asks for what was not measured: exact attention is always right.
  if (!spec.tuned) return kNeverSparse;
  return std::max(spec.tuned->forward.value_or(0), spec.tuned->forward_backward.value_or(0));
}

namespace {

// The least of what f gives for the heads.
template <class F>
auto LeastOfHeads(const AttentionSpec& spec, const F& f) {
  auto least = f(spec.heads.front());
  for (const AttentionSpec& head : spec.heads) least = std::min(least, f(head));
  return least;
}

}  // namespace

int ShortestSparse(const AttentionSpec& spec) {
  if (!spec.heads.empty()) return LeastOfHeads(spec, [](const auto& head) { return ShortestSparse(head); });
  const int64_t least = OfKind(spec, [](const auto& kind) { return ShortestSparse(kind); });
  return static_cast<int>(std::min<int64_t>(std::max<int64_t>(MinLength(spec), least), kNeverSparse));
}

bool IsSparseAt(const AttentionSpec& spec, int length) {
  const int shortest = ShortestSparse(spec);
  return shortest != kNeverSparse && length >= shortest;
}

int64_t ShortestToPlan(const AttentionSpec& spec) {
  if (!spec.heads.empty()) return LeastOfHeads(spec, [](const auto& head) { return ShortestToPlan(head); });
  return OfKind(spec, [](const auto& kind) { return ShortestToPlan(kind); });
}

bool SameWork(const AttentionSpec& a, const AttentionSpec& b) {
  const auto work = [](AttentionSpec spec) {
    ForEachSpec(spec, [](AttentionSpec& one) {
      one.seed = 0;
      one.resample = Resample::kCall;
      one.min_length = 0;
      one.tuned.reset();
    });
    return spec;
  };
  return work(a) == work(b);
}

bool ChangesWork(std::string_view key) {
  return key != "seed" && key != "resample" && key != "min_length" && key != "tuned_lengths";
}

}  // namespace lshformer
