// HF config.json, both ways. Unknown keys are kept and written back; wrong types and impossible sizes are refused.
//
// A config is what all models share, what encoder layers share (nn/encoder_config.h) and a part of the family's own
// (models/family.h). Each key is one row of a table, from which reading, writing, checks and --config_overrides follow.
#pragma once
#include <any>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/option_table.h"
#include "nn/encoder_config.h"

namespace lshformer {

struct ModelConfig : EncoderConfig {
  ModelConfig();  // of the first family of the table, whose defaults are those of the members

  std::string model_type;
  std::vector<std::string> architectures;  // HF's classes: "BertForMaskedLM", …
  int64_t vocab_size = 30522;              // ids are below it
  int64_t max_position_embeddings = 512;   // tokens of the longest sequence, with a table of positions or without one;
                                           // of some families not the number in the file (Family::complete)
  int64_t type_vocab_size = 2;             // type ids are below it
  int64_t embedding_size = 0;              // width of the embeddings and the decoder; 0: hidden_size, no such key
  double initializer_range = 0.02;
  int64_t pad_token_id = 0;
  int64_t attended_padding = 0;     // models/attended_padding.h; 0: no padding anywhere
  int64_t num_labels = 2;           // from id2label, label2id or num_labels
  std::vector<std::string> labels;  // id2label in order of id; empty: LABEL_0 …
  std::string problem_type;         // "", "regression", "single_label_classification" or kMultiLabel
  Json other = Json::object();      // every key of the file that no member stands for, kept in order

  std::string label_name(int64_t id) const;
  int64_t embedding_width() const { return embedding_size == 0 ? hidden_size : embedding_size; }
  // Every label is there or not, whatever the others are.
  static constexpr const char* kMultiLabel = "multi_label_classification";
  bool multi_label() const { return problem_type == kMultiLabel; }
  // HF's rule: as problem_type says, else one output is a regression.
  bool regression() const { return problem_type.empty() ? num_labels == 1 : problem_type == "regression"; }

  // The family's own part, its defaults where nothing was set. Error if it is another family's.
  template <class T>
  const T& own() const {
    static const T defaults{};
    return own_.has_value() ? Own<T>(std::any_cast<T>(&own_)) : defaults;
  }
  template <class T>
  T& own() {
    if (!own_.has_value()) own_.emplace<T>();
    return Own<T>(std::any_cast<T>(&own_));
  }

 private:
  template <class T, class Pointer>
  auto& Own(Pointer* own) const {
    if (own == nullptr) Fail("the config of a model of type \"{}\" has another family's keys", model_type);
    return *own;
  }
  std::any own_;
};

// A new model of a type; Error naming the known types.
ModelConfig DefaultModelConfig(std::string_view model_type, std::string_view where);
ModelConfig ParseModelConfig(const Json& json, std::string_view where);  // also applies ValidateModelConfig
ModelConfig ReadModelConfig(const std::string& path);                    // config.json itself
Json ReadModelConfigJson(const std::string& path);                       // as it stands there
// Every member is one that a file may have, and they suit each other: heads divide hidden, sizes are sane …
void ValidateModelConfig(const ModelConfig& config, std::string_view where);
Json ToJson(const ModelConfig& config);  // HF layout; torch_dtype float32; "attention" in full
// The keys and values of --config_overrides, split at the commas outside brackets and quotes.
std::vector<std::pair<std::string, std::string>> SplitOverrides(std::string_view overrides, std::string_view where);
// --config_overrides "hidden_size=128,num_hidden_layers=2"; an unknown key suggests the nearest.
void ApplyOverrides(ModelConfig& config, std::string_view overrides, std::string_view where);

inline constexpr int64_t kMostPositions = int64_t{1} << 24;  // no text comes near it

struct Family;
// All keys of a family's config that stand for members, a row each, in the order in which they are written.
OptionTable<ModelConfig> ConfigTable(const Family& family);

// A key that stands for a member of the family's own part, as a row of the table.
template <class Own>
Option<ModelConfig> OwnOption(Option<Own> option) {
  return OfPart<ModelConfig>(
      std::move(option), [](auto& config) -> auto& { return config.template own<Own>(); });
}

// For families that read tokens as BERT does: the rows of max_position_embeddings and type_vocab_size.
std::vector<Option<ModelConfig>> TokenOptions();

// "classifier_dropout" of an own part; below 0: null, that is hidden_dropout_prob.
template <class Own>
Option<ModelConfig> ClassifierDropout(double Own::*member) {
  constexpr NumberRange kProbability{.low = 0, .high = 1, .high_open = true};
  Option<Own> option =
      Number("classifier_dropout", member, kProbability, "before the classifier; null: `hidden_dropout_prob`");
  option.read = [member, read = std::move(option.read)](const Json& object, std::string_view where, Own& into) {
    if (object.at("classifier_dropout").is_null())
      into.*member = -1;
    else
      read(object, where, into);
  };
  option.write = [member](const Own& from) { return from.*member < 0 ? Json() : Json(from.*member); };
  return OwnOption(std::move(option).NullIsValue());
}
// "max_position_embeddings" of an own part, as the file has it, where how many tokens it makes room for is another
// number (Family::complete).
template <class Own>
Option<ModelConfig> PositionsOption(int64_t Own::*member, std::string help) {
  return OwnOption(Integer("max_position_embeddings", member, 1, kMostPositions, std::move(help)));
}

// For a family's check. Error naming `where`.
void CheckParameterCount(double parameters, std::string_view where);  // 32 GB of weights at most
// Variants of HF's encoders that change the result and are not computed here: decoders, and of those that have a table
// of positions relative ones (HF's other models do not heed the key).
void RefuseOtherVariants(const Json& other, std::string_view where);
void RefuseOtherPositions(const Json& other, std::string_view where);

}  // namespace lshformer
