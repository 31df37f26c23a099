#include "models/family.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace lshformer {

std::vector<std::string> ModelTypes() {
  std::vector<std::string> names;
  for (const Family* family : Families()) names.emplace_back(family->model_type);
  std::sort(names.begin(), names.end());
  return names;
}

const Family& FindFamily(std::string_view model_type, std::string_view where) {
  for (const Family* family : Families())
    if (model_type == family->model_type) return *family;
  const std::vector<std::string> names = ModelTypes();
  Fail("{}: \"model_type\": expected \"{}\", got \"{}\"{}", where, fmt::join(names, "\" or \""), Shown(model_type),
       Suggestion(model_type, names));
}

const Family& FamilyOf(const ModelConfig& config) { return FindFamily(config.model_type, "model config"); }

Json InTodaysKeys(const Json& config, std::string_view where) {
  if (!config.is_object() || !HasValue(config, "model_type")) return config;
  const Family& family = FindFamily(GetString(config, "model_type", where), where);
  return family.in_todays_keys == nullptr ? config : family.in_todays_keys(config, where);
}

Json WithPositions(const Json& config, int64_t positions, std::string_view where) {
  ModelConfig parsed = ParseModelConfig(InTodaysKeys(config, where), where);
  const Family& family = FamilyOf(parsed);
  if (family.extend_rotary != nullptr) {
    family.extend_rotary(parsed, positions, where);
    family.complete(parsed, where);
    return ToJson(parsed);
  }
  constexpr const char* kRows = "max_position_embeddings";
  Json longer = config;
  const int64_t rows = HasValue(config, kRows) ? GetInt(config, kRows, where) : parsed.max_position_embeddings;
  longer[kRows] = positions + rows - parsed.max_position_embeddings;  // some are no positions
  return longer;
}

void CheckTokenizer(const Family& family, const Tokenizer& tokenizer, std::string_view where) {
  const bool reads_words = family.take_words != nullptr;
  if (reads_words == (tokenizer.character_vocab_size() > 0)) return;
  Fail("{}: a model of type \"{}\" reads {}, the tokenizer gives {}", where, family.model_type,
       reads_words ? "words and their characters (words.txt, characters.txt)" : "pieces of words",
       reads_words ? "pieces of words" : "words (words.txt)");
}

}  // namespace lshformer
