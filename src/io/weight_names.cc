#include "io/weight_names.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lshformer {
namespace {

constexpr std::string_view kPrefix = "bert.";

struct Spelling {
  std::string_view old, current;
};
// Files converted from TensorFlow.
constexpr std::array<Spelling, 2> kLayerNormSpellings{
    {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}}};
// Where a bare BertModel saves without "bert.".
constexpr std::array<std::string_view, 3> kEncoderParts{"embeddings.", "encoder.", "pooler."};

}  // namespace

std::string CanonicalWeightName(std::string_view name) {
  std::string canonical(name);
  for (const Spelling& spelling : kLayerNormSpellings)
    if (canonical.ends_with(spelling.old))
      canonical.replace(canonical.size() - spelling.old.size(), spelling.old.size(), spelling.current);
  const bool bare = std::any_of(kEncoderParts.begin(), kEncoderParts.end(),
                                [&](std::string_view part) { return canonical.starts_with(part); });
  if (bare) canonical.insert(0, kPrefix);
  return canonical;
}

bool IsIgnorableWeight(std::string_view canonical_name) { return canonical_name.ends_with("embeddings.position_ids"); }

std::string TiedTo(std::string_view canonical_name) {
  if (canonical_name == "cls.predictions.decoder.weight") return "bert.embeddings.word_embeddings.weight";
  if (canonical_name == "cls.predictions.decoder.bias") return "cls.predictions.bias";
  return "";
}

std::string FileWeightName(std::string_view canonical_name, std::string_view architecture) {
  const bool bare = architecture == "BertModel" && canonical_name.starts_with(kPrefix);
  return std::string(bare ? canonical_name.substr(kPrefix.size()) : canonical_name);
}

std::map<std::string, std::string> MapWeightNames(const std::vector<std::string>& names_in_file,
                                                  std::string_view where) {
  std::map<std::string, std::string> map, aliases;
  for (const std::string& name : names_in_file) {
    const std::string canonical = CanonicalWeightName(name);
    if (IsIgnorableWeight(canonical)) continue;
    const std::string tied = TiedTo(canonical);
    const auto [place, fresh] = tied.empty() ? map.emplace(canonical, name) : aliases.emplace(tied, name);
    if (!fresh) Fail("{}: \"{}\" and \"{}\" name the same tensor", where, Shown(place->second, 90), Shown(name, 90));
  }
  map.merge(aliases);  // keeps what the file has under the tensor's own name
  return map;
}

}  // namespace lshformer
