// A family of models: all that the program knows of one "model_type". Adding a family is a folder models/<family>/ and
// a row in models/families.cc; else only the quickstart and text/tokenizer_class.cc name one.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/sentence_pairs.h"
#include "io/weight_names.h"
#include "models/config.h"
#include "models/task.h"
#include "text/tokenizer.h"

namespace lshformer {

class Model;
class ParameterMap;
struct ParameterSpec;

struct Head {
  Task task;
  const char* architecture;  // HF's class: "BertForMaskedLM"
};

// The two-way head of a pretraining model, which looks at pairs of sentences.
struct SentencePairHead {
  PairKind kind = PairKind::kNextSentence;  // the pairs that it is for
  const char* logits = "";                  // HF's name of ModelOutput::sentence_pair_logits
  const char* label = "";                   // and of Labels::classes
};

// Of a new model of words: what its tables are made for.
struct WordTables {
  int64_t words = 0, characters = 0;  // in the vocabularies
  int64_t vector_width = 0;           // of given vectors; 0: as the config says
  bool fixed = false;                 // vectors are given and stay as they are
};

struct Family {
  const char* model_type;

  // config.json. Its own keys: of its own part (OwnOption), or members of ModelConfig that not all families have
  // (max_position_embeddings).
  std::vector<Option<ModelConfig>> (*options)() = nullptr;
  bool encoder_layers = false;  // has nn's encoder layers: their keys and "attention" belong to its config,
  std::span<const std::string_view> without_encoder_keys = {};  // but these, which say nothing of its layers: refused
  EncoderKeys encoder_keys = {};                                // what it calls them
  void (*set_defaults)(ModelConfig&) = nullptr;  // of a new model; null, as of the first family: the members'
  // What follows from its keys when all are read: how layers are made (EncoderConfig::shape), how many tokens a table
  // of positions has room for. Changes nothing that it has done before. Throws `WHERE: …`.
  void (*complete)(ModelConfig&, std::string_view where) = nullptr;
  // Room for so many tokens without a table of positions: rotary ones grow behind those that there are. Throws `WHERE:
  // …` where that cannot be said. null: the family has a table.
  void (*extend_rotary)(ModelConfig&, int64_t positions, std::string_view where) = nullptr;
  // A config.json as older code of the family wrote it, in today's keys; others unchanged.
  Json (*in_todays_keys)(const Json&, std::string_view where) = nullptr;
  // What must hold between several keys, and what ModelConfig::other may not say. Throws `WHERE: …`.
  void (*check)(const ModelConfig&, std::string_view where) = nullptr;

  std::span<const Head> heads = {};      // the heads that it has
  SentencePairHead sentence_pairs = {};  // of pretraining
  std::span<const std::string_view> streams =
      {};  // what a batch must have: its tokens, then its further streams, by name
  // Of families that read words: the parameter that holds their vectors, "" of others; and what changes in a config
  // that a new model of these words is made of.
  std::string_view word_table = "";
  void (*take_words)(ModelConfig&, const WordTables&) = nullptr;
  WeightNames weight_names = {};
  std::string_view layer_prefix = "";  // of layer i's parameters, before "<i>."; "": layers are not told apart so
  int64_t (*layers)(const ModelConfig&) = nullptr;  // how many of them the config asks for, under this key
  const char* layers_key = "num_hidden_layers";
  std::string_view first_parameter = "";  // a small one of the first layer: its gradient alone takes a whole backward

  // Every parameter in file order, tied ones once. A pure function of the config: nothing is allocated.
  std::vector<ParameterSpec> (*parameters)(const ModelConfig&, Task) = nullptr;
  std::shared_ptr<Model> (*build)(ModelConfig, Task, const ParameterMap&) = nullptr;
  // Why an encoder's tensor may be missing from files with these canonical names, ": …", or ""; null: never known.
  std::string (*explain_missing)(const std::map<std::string, std::string>& by_name, const ModelConfig&) = nullptr;
};

// The table (families.cc). The first is what a config without "model_type" is.
std::span<const Family* const> Families();

std::vector<std::string> ModelTypes();                                          // by name
const Family& FindFamily(std::string_view model_type, std::string_view where);  // Error naming the known types
const Family& FamilyOf(const ModelConfig& config);
// config.json as the family reads it: Family::in_todays_keys of the family that it names, if any.
Json InTodaysKeys(const Json& config, std::string_view where);
// config.json of the same model with room for `positions` tokens: more rows in its table, or by extend_rotary.
Json WithPositions(const Json& config, int64_t positions, std::string_view where);
// Error unless the tokenizer, of `where`, gives what models of the family read: pieces, or words and characters.
void CheckTokenizer(const Family& family, const Tokenizer& tokenizer, std::string_view where);

}  // namespace lshformer
