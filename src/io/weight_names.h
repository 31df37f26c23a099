// Names of tensors in HF files, old and new, mapped to one canonical form, and which of them a file may omit.
//
//   canonical: as HF's models with a head save today: the family's prefix on the encoder, LayerNorm "weight" and
//   "bias", no tied alias. Heads have no prefix.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// A second name of a tensor: of a decoder that is tied to the word table, say.
struct WeightAlias {
  std::string_view alias, tensor;
};

// What older code called a part of a name.
struct WeightSpelling {
  std::string_view old, current;
};

// A tensor, by the end of its name, that older files have as one of several in one: part `part` of the `parts` equal
// ones into which the first dimension of `whole` falls.
struct JoinedWeight {
  std::string_view part_name, whole;
  int part, parts;
};

// How a family of models names its tensors.
struct WeightNames {
  std::string_view prefix = "";                    // of the encoder: "bert."
  std::string_view bare_architecture = "";         // the model without a head, which saves without the prefix
  std::span<const std::string_view> parts = {};    // what the encoder's names go on with: "embeddings.", …
  std::span<const WeightAlias> aliases = {};       // canonical names
  std::string_view buffer = "";                    // names that end so hold nothing to load; "": there are none
  std::string_view old_prefix = "";                // of the encoder in older files, in place of `prefix`
  std::span<const WeightSpelling> spellings = {};  // of older files
  std::span<const JoinedWeight> joined = {};       // of older files
};

// The tensor of a file that holds a canonical one: the name that it would have canonically, and which part it is.
struct WeightPart {
  std::string whole;
  int part, parts;
};
// Nothing where no older file has it in another.
std::optional<WeightPart> PartOfJoined(const WeightNames& names, std::string_view canonical_name);

// "embeddings.LayerNorm.gamma" → "bert.embeddings.LayerNorm.weight", "bert.encoder…" → itself. A name that is no tensor
// of the family (an optimizer's, another model's) is returned with only the spelling of LayerNorm mended.
std::string CanonicalWeightName(const WeightNames& names, std::string_view name);

// The name under which HF's `architecture` saves a canonical tensor: a bare model's has no prefix.
std::string FileWeightName(const WeightNames& names, std::string_view canonical_name, std::string_view architecture);

// canonical name → name in the file. An alias stands for the tensor it is tied to where the file lacks that one, and is
// left out otherwise, as are buffers. Error (naming `where` and both) if two names mean one tensor.
std::map<std::string, std::string> MapWeightNames(const WeightNames& names,
                                                  const std::vector<std::string>& names_in_file,
                                                  std::string_view where);

}  // namespace lshformer
