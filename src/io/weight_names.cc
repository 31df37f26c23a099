#include "io/weight_names.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lshformer {
namespace {

struct Spelling {
  std::string_view old, current;
};
// Files converted from TensorFlow.
constexpr std::array<Spelling, 2> kLayerNormSpellings{
    {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}}};

}  // namespace

std::string CanonicalWeightName(const WeightNames& names, std::string_view name) {
  std::string canonical(name);
  for (const Spelling& spelling : kLayerNormSpellings)
    if (canonical.ends_with(spelling.old))
      canonical.replace(canonical.size() - spelling.old.size(), spelling.old.size(), spelling.current);
  const bool bare = std::any_of(names.parts.begin(), names.parts.end(),
                                [&](std::string_view part) { return canonical.starts_with(part); });
  if (bare) canonical.insert(0, names.prefix);
  return canonical;
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
