#include "text/tokenizer_class.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer_files.h"

namespace lshformer {
namespace {

struct NamedClass {
  std::string_view name;
  TokenizerClass value;
};
constexpr NamedClass kClasses[] = {{"BertTokenizer", TokenizerClass::kBert},
                                   {"DistilBertTokenizer", TokenizerClass::kBert},
                                   {"ElectraTokenizer", TokenizerClass::kBert},
                                   {"MobileBertTokenizer", TokenizerClass::kBert},
                                   {"ConvBertTokenizer", TokenizerClass::kBert},
                                   {"AlbertTokenizer", TokenizerClass::kAlbert},
                                   {"RobertaTokenizer", TokenizerClass::kRoberta},
                                   {"XLMRobertaTokenizer", TokenizerClass::kXlmRoberta},
                                   {"PreTrainedTokenizerFast", TokenizerClass::kGeneric},
                                   {"TokenizersBackend", TokenizerClass::kGeneric},
                                   {"WordTokenizer", TokenizerClass::kWords}};

// Of the models whose own tokenizer is none of another name: that.
constexpr NamedClass kClassesOfModels[] = {{"bert", TokenizerClass::kBert},
                                           {"distilbert", TokenizerClass::kBert},
                                           {"nomic_bert", TokenizerClass::kBert},
                                           {"electra", TokenizerClass::kBert},
                                           {"mobilebert", TokenizerClass::kBert},
                                           {"convbert", TokenizerClass::kBert},
                                           {"albert", TokenizerClass::kAlbert},
                                           {"roberta", TokenizerClass::kRoberta},
                                           {"xlm-roberta", TokenizerClass::kXlmRoberta},
                                           {"modernbert", TokenizerClass::kGeneric}};

TokenizerClass ClassNamed(const std::string& name, const std::string& where) {
  const bool fast = name.ends_with("TokenizerFast");
  const std::string plain = fast ? name.substr(0, name.size() - 4) : name;
  for (const NamedClass& known : kClasses)
    if (known.name == name || known.name == plain) return known.value;
  Fail(
      "{}: \"tokenizer_class\": \"{}\" is no tokenizer that is read here; BertTokenizer, AlbertTokenizer, "
      "RobertaTokenizer, XLMRobertaTokenizer, PreTrainedTokenizerFast and their kin are",
      where, Shown(name, 60));
}

// config.json, where the folder has one.
Json ModelConfigOf(const std::string& folder) {
  const std::string path = InFolder(folder, "config.json");
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ? ReadJsonObject(path) : Json::object();
}

std::string ModelTypeOf(const Json& config) {
  return HasValue(config, "model_type") && config["model_type"].is_string() ? config["model_type"].get<std::string>()
                                                                            : "";
}

TokenizerClass ClassOfModel(const Json& config, const std::string& path) {
  if (HasValue(config, "tokenizer_class")) return ClassNamed(GetString(config, "tokenizer_class", path), path);
  const std::string type = ModelTypeOf(config);
  for (const NamedClass& known : kClassesOfModels)
    if (known.name == type) return known.value;
  return TokenizerClass::kUnsaid;
}

// The value with which a key changes nothing.
enum class Harmless { kFalse, kTrue, kEmpty, kBasic, kWordPiece };

struct ForeignKey {
  const char* key;
  Harmless harmless;
};
constexpr ForeignKey kForeignKeys[] = {{"word_tokenizer_type", Harmless::kBasic},
                                       {"subword_tokenizer_type", Harmless::kWordPiece},
                                       {"do_word_tokenize", Harmless::kTrue},
                                       {"do_subword_tokenize", Harmless::kTrue},
                                       {"do_basic_tokenize", Harmless::kTrue},
                                       {"do_split_on_punc", Harmless::kTrue},
                                       {"clean_text", Harmless::kTrue},
                                       {"never_split", Harmless::kEmpty},
                                       {"mecab_kwargs", Harmless::kEmpty},
                                       {"sudachi_kwargs", Harmless::kEmpty},
                                       {"jumanpp_kwargs", Harmless::kEmpty},
                                       {"sp_model_kwargs", Harmless::kEmpty},
                                       {"split_special_tokens", Harmless::kFalse},
                                       {"add_bos_token", Harmless::kFalse},
                                       {"add_eos_token", Harmless::kFalse}};

bool IsHarmless(const Json& value, Harmless harmless) {
  switch (harmless) {
    case Harmless::kFalse:
      return value == false;
    case Harmless::kTrue:
      return value == true;
    case Harmless::kEmpty:
      return (value.is_array() || value.is_object()) && value.empty();
    case Harmless::kBasic:
      return value == "basic";
    case Harmless::kWordPiece:
      return value == "wordpiece";
  }
  return false;
}

void RefuseForeignKeys(const Json& config, const std::string& path, bool has_json) {
  for (const ForeignKey& foreign : kForeignKeys) {
    // Where there is a tokenizer.json, it says what stands around texts.
    if (has_json && std::string_view(foreign.key).starts_with("add_")) continue;
    if (HasValue(config, foreign.key) && !IsHarmless(config[foreign.key], foreign.harmless))
      Fail("{}: \"{}\": {} would change tokens in a way that is not supported", path, foreign.key,
           Shown(config[foreign.key].dump(-1, ' ', false, Json::error_handler_t::replace), 60));
  }
  if (HasValue(config, "wordpieces_prefix") && config["wordpieces_prefix"] != "##")
    Fail("{}: \"wordpieces_prefix\": expected \"##\", got {}", path, ShownValue(config["wordpieces_prefix"]));
  if (HasValue(config, "auto_map") && (!config["auto_map"].is_object() || config["auto_map"].contains("AutoTokenizer")))
    Fail("{}: \"auto_map\": a tokenizer that is Python code of its own is not supported", path);
}

}  // namespace

TokenizerClass ReadTokenizerClass(const std::string& folder, const Json& config) {
  const std::string path = InFolder(folder, kTokenizerConfigFile);
  const bool has_json = std::filesystem::exists(InFolder(folder, kTokenizerJsonFile));
  const Json model = ModelConfigOf(folder);
  RefuseForeignKeys(config, path, has_json);
  if (has_json && ModelTypeOf(model) == "modernbert") return TokenizerClass::kGeneric;
  return HasValue(config, "tokenizer_class") ? ClassNamed(GetString(config, "tokenizer_class", path), path)
                                             : ClassOfModel(model, InFolder(folder, "config.json"));
}

}  // namespace lshformer
