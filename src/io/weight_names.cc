#include "io/weight_names.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lshformer {
namespace {

// Files converted from TensorFlow.
constexpr std::array<WeightSpelling, 2> kLayerNormSpellings{
    {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}}};

}  // namespace

std::string CanonicalWeightName(const WeightNames& names, std::string_view name) {
  std::string canonical(name);
  for (const WeightSpelling& spelling : kLayerNormSpellings)
    if (canonical.ends_with(spelling.old))
      canonical.replace(canonical.size() - spelling.old.size(), spelling.old.size(), spelling.current);
  if (!names.old_prefix.empty() && canonical.starts_with(names.old_prefix))
    canonical.replace(0, names.old_prefix.size(), names.prefix);
  for (const WeightSpelling& spelling : names.spellings)
    if (const size_t at = canonical.find(spelling.old); at != canonical.npos)
      canonical.replace(at, spelling.old.size(), spelling.current);
  const bool bare = std::any_of(names.parts.begin(), names.parts.end(),
                                [&](std::string_view part) { return canonical.starts_with(part); });
  if (bare) canonical.insert(0, names.prefix);
  return canonical;
}

std::optional<WeightPart> PartOfJoined(const WeightNames& names, std::string_view canonical_name) {
  for (const JoinedWeight& joined : names.joined) {
    if (!canonical_name.ends_with(joined.part_name)) continue;
    std::string whole(canonical_name.substr(0, canonical_name.size() - joined.part_name.size()));
    return WeightPart{whole.append(joined.whole), joined.part, joined.parts};
  }
  return std::nullopt;
}

std::string FileWeightName(const WeightNames& names, std::string_view canonical_name, std::string_view architecture) {
  const bool bare = architecture == names.bare_architecture && canonical_name.starts_with(names.prefix);
  return std::string(bare ? canonical_name.substr(names.prefix.size()) : canonical_name);
}

std::map<std::string, std::string> MapWeightNames(const WeightNames& names,
                                                  const std::vector<std::string>& names_in_file,
                                                  std::string_view where) {
  std::map<std::string, std::string> map, aliases;
  for (const std::string& name : names_in_file) {
    const std::string canonical = CanonicalWeightName(names, name);
    if (!names.buffer.empty() && canonical.ends_with(names.buffer)) continue;
    const auto tied = std::find_if(names.aliases.begin(), names.aliases.end(),
                                   [&](const WeightAlias& alias) { return alias.alias == canonical; });
    const auto [place, fresh] =
        tied == names.aliases.end() ? map.emplace(canonical, name) : aliases.emplace(tied->tensor, name);
    if (!fresh) Fail("{}: \"{}\" and \"{}\" name the same tensor", where, Shown(place->second, 90), Shown(name, 90));
  }
  map.merge(aliases);  // keeps what the file has under the tensor's own name
  return map;
}

}  // namespace lshformer
