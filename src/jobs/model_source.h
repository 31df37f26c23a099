// Which model a job works on: a checkpoint or a new one, its tokenizer, and the limits that the two set.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "base/json.h"
#include "base/option_table.h"
#include "data/sequence_set.h"
#include "kernels/matmul_precision.h"
#include "kernels/precision.h"
#include "models/model.h"
#include "text/tokenizer.h"
#include "train/options.h"

namespace lshformer {

struct ModelSource {
  std::string model_name_or_path;  // a checkpoint folder; or
  std::string model_type;          // a new model; "": of the first of Families()
  std::string config_name;         // with this config.json
  std::string config_overrides;    // and these changes, "hidden_size=128,num_hidden_layers=2"
  std::string tokenizer_name;      // default: model_name_or_path
  std::string reinitialize;        // parameters of the checkpoint that are drawn again: parts of names, "a,b"
  AttentionChanges attention;
  Precision precision = Precision::kFloat32;
  MatmulPrecision matmul_precision = MatmulPrecision::kHighest;  // of float32; set for the whole process
  bool ignore_mismatched_sizes = false;                          // a head for other labels is drawn anew, not an error
};

const OptionTable<ModelSource>& ModelSourceTable();  // but the attention, which has tables of its own

// UsageError where this CPU has no instructions for it.
void CheckPrecision(Precision precision);

// UsageError if neither or both ways of naming a model are given.
void CheckModelSource(const ModelSource& source);

// The head that a job's "task" names: fill-mask, pretraining, text-classification, multiple-choice, question-answering;
// "": the one that the model in `folder` has. UsageError for another name.
Task NamedTask(const std::string& name, const std::string& folder);

// Whether it is a new model of a family that reads words, and no tokenizer is named: the job then makes the vocabulary
// of its training data (jobs/data/word_source.h).
bool MakesVocabulary(const ModelSource& source);

// config_name as a file: a config.json, or the one of a folder.
std::string ConfigPath(const std::string& config_name);

// tokenizer_name, else the model's folder.
std::shared_ptr<const Tokenizer> LoadTokenizer(const ModelSource& source);

// A checkpoint of its own (resuming), else model_name_or_path, else a new model: config_name or the defaults of
// model_type, then config_overrides, vocab_size of the tokenizer unless overridden. Attention flags are applied, then
// `adjust`; where training refreshes directions, the model has them among its tensors. New weights are drawn from the
// training's seed. Error if the tokenizer has more tokens than the model, or where directions are to be refreshed and
// there are none.
ModelPtr MakeModel(const ModelSource& source, const std::string& resume_from, Task task, const Tokenizer& tokenizer,
                   const TrainingOptions& training, const std::function<void(ModelConfig&)>& adjust = {});

// Error naming `where` if sequences have a second text by their types and the model takes none (type_vocab_size 1).
void RequireTypes(const SequenceSet& set, const ModelConfig& config, const std::string& where);

// max_seq_length within max_position_embeddings; 0: as many. OptionError.
int SequenceLimit(int max_seq_length, const ModelConfig& config);

// Lays `changes` over the attention of a config. UsageError where there are some and the family has no such attention.
void ApplyAttention(const AttentionChanges& changes, ModelConfig& config);

// What a checkpoint was made with that runs with another attention: what it answers then is another function of its
// weights.
struct AttentionChange {
  std::vector<AttentionSpec> made_with;
  std::string warning;  // one line, short of what was measured
};
// The same over the config of a checkpoint; nothing where that changes no answer.
std::optional<AttentionChange> ChangeAttention(const std::string& folder, const AttentionChanges& changes,
                                               ModelConfig& config);
// Warns of it where the model is given its first batch, and of the cosine between what the two make of the first texts
// in it: a few hundred tokens, read once more under each, apart from the run.
void WarnOfAttention(Model& model, const std::optional<AttentionChange>& change);

// Every key of `changes` with the value given or null, for the settings of a run.
Json AttentionSettings(const AttentionChanges& changes);

// OptionError of "output" if the file, by whatever name, is one of those that a model or a tokenizer in `folder` is
// made of: answers would replace it.
void RefuseModelFileAsOutput(const std::string& folder, const std::string& output);

// model_max_length of the tokenizer saved beside a model: the position table of a new one, else what the tokenizer came
// with where the table holds as much. Without it transformers cuts no text, and fails on a long one.
int64_t SavedMaxLength(bool new_model, const Tokenizer& tokenizer, const ModelConfig& config);

}  // namespace lshformer
